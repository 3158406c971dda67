#pragma once

#include <filesystem>
#include <functional>

#include "retrieval/documents.h"

namespace heed {

/// The text of a PDF by page, as the program pdftotext gives it. Throws kind data where it is not
/// installed, fails, or exceeds the limits.
void read_pdf(const std::filesystem::path& path, const DocumentLimits& limits,
              const std::function<void(Section)>& visit);

}  // namespace heed
