#include "serve/http_malformed.h"

#include <algorithm>
#include <boost/beast/http/error.hpp>

namespace heed::serve {

bool has_other_version(std::string_view begun) {
  const size_t end = begun.find("\r\n");
  const std::string_view line = begun.substr(0, end);
  if (end == std::string_view::npos || std::count(line.begin(), line.end(), ' ') != 2) {
    return false;
  }
  const std::string_view version = line.substr(line.rfind(' ') + 1);
  const auto digit = [&](size_t i) { return version[i] >= '0' && version[i] <= '9'; };
  return version.size() == 8 && version.starts_with("HTTP/") && digit(5) && version[6] == '.' &&
         digit(7) && version != "HTTP/1.1" && version != "HTTP/1.0";
}

const char* malformed_part(const boost::system::error_code& problem) {
  using boost::beast::http::error;
  switch (static_cast<error>(problem.value())) {
    case error::bad_method:
    case error::bad_target:
    case error::bad_version:
      return "its first line must be METHOD TARGET HTTP/1.1, with single spaces and CR LF at its "
             "end";
    case error::bad_line_ending:
      return "its lines must end with CR and LF";
    case error::bad_field:
      return "a header's name holds a character that no name may have";
    case error::bad_value:
    case error::bad_obs_fold:
      return "a header's value holds a control character or goes on in the next line";
    case error::bad_content_length:
      return "Content-Length must be one number, given once";
    case error::bad_transfer_encoding:
      return "Transfer-Encoding must be chunked, alone and without Content-Length";
    case error::bad_chunk:
    case error::bad_chunk_extension:
      return "a chunk of its body has a malformed size or end";
    default:
      return "it does not follow RFC 9112";
  }
}

}  // namespace heed::serve
