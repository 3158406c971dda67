#pragma once

#include <zlib.h>

#include <string>

#include "base/file.h"
#include "support/data.h"

namespace heed::test {

/// The text as gzip packs it.
inline std::string gzipped(const std::string& text) {
  const TemporaryFolder folder;
  const auto path = folder / "a.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return read_file(path);
}

}  // namespace heed::test
