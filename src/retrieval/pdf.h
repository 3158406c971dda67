#pragma once

#include <filesystem>
#include <functional>

#include "retrieval/documents.h"

namespace heed {

/// The text of a PDF by page, as the program pdftotext gives it. Throws kind data where it is not
/// installed, fails, or gives more than `max_bytes`.
void read_pdf(const std::filesystem::path& path, int64_t max_bytes,
              const std::function<void(Section)>& visit);

}  // namespace heed
