#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "heed/inspect_run.h"

namespace heed::app {

inline constexpr int64_t kMostPixels = 1024;  ///< a side of a picture's map

struct Chosen {
  const RecordedAttention* attention;
  int64_t head;
};

/// What of an inspection is to be shown.
class InspectView {
 public:
  InspectView(const Inspection& inspection, const InspectOptions& options);

  const Inspection& inspection() const { return inspection_; }
  const InspectOptions& options() const { return options_; }
  const std::vector<Chosen>& chosen() const { return chosen_; }
  const std::string& kind() const { return kind_; }
  /// A kind of attention by its name in the language asked for.
  std::string kind_name(const std::string& kind) const;
  /// Likewise a head's pattern.
  std::string pattern_name(const std::string& pattern) const;
  std::string title() const;
  std::set<int64_t> layers() const;
  /// The map of a head as the options want it, pooled to at most that many cells.
  Tensor values_of(const Chosen& each, int64_t rows, int64_t columns) const;
  Heatmap heatmap(int64_t rows, int64_t columns) const;
  /// What a query sees of the image, a panel a head; of a caption, a panel a word.
  PatchPicture patches() const;

 private:
  std::string default_kind() const;
  [[noreturn]] void fail_nothing_there() const;
  void hide_special(Heatmap& map) const;
  /// Rows and columns of patches; the keys of a row lie `stride` apart from those of the next.
  struct PatchGrid {
    int64_t rows, columns, stride;
  };
  PatchGrid grid_of(const RecordedAttention& attention) const;
  Tensor patch_weights(const Chosen& each, int64_t query) const;
  void choose();

  const Inspection& inspection_;
  const InspectOptions& options_;
  std::string kind_;
  std::vector<Chosen> chosen_;
};

std::string inspection_json(const InspectView& view);

}  // namespace heed::app
