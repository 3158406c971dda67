#pragma once

#include <boost/system/error_code.hpp>
#include <string_view>

namespace heed::serve {

/// Whether `begun`, the first bytes of a request, holds a well-formed request line whose version is
/// neither HTTP/1.1 nor HTTP/1.0.
bool has_other_version(std::string_view begun);

/// What is wrong with a request that Beast's parser refuses, in words for its sender.
const char* malformed_part(const boost::system::error_code& problem);

}  // namespace heed::serve
