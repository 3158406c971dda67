#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/table.h"
#include "heed/data.h"

namespace heed {

/// Bytes read so far, over all files of a set.
using BytesDone = std::function<void(int64_t)>;

struct TextVisitor {
  std::function<bool(std::string)> text;  ///< a piece of running text; false: enough
  std::function<void()> document_end;
};
/// Running text of all files, in order.
void visit_texts(const std::vector<std::filesystem::path>& files, const DataOptions& options,
                 const TextVisitor& visitor, const BytesDone& done = {});

/// Pairs of which neither part is empty; `visit` gives false when it has enough.
void visit_pairs(const std::string& data, const DataOptions& options,
                 const std::function<bool(TextPair)>& visit, const BytesDone& done = {});
/// Rows of which neither part is empty; the reader knows where they stand.
void visit_labelled(const std::string& data, const DataOptions& options,
                    const std::function<bool(LabelledText, const TableReader&)>& visit,
                    const BytesDone& done = {});

}  // namespace heed
