#pragma once

#include <string>
#include <string_view>

namespace heed {

/// The explorer page (web/dist/explorer.html.gz) as it lies in the repository: one gzipped HTML
/// file.
std::string_view explorer_page_gzip();

/// The same, unpacked.
const std::string& explorer_page();

/// The page with its data inside, which needs no server. `json` is the object that
/// docs/formats/explorer-protocol.md describes under "The offline file".
std::string explorer_page_with_data(std::string_view json);

}  // namespace heed
