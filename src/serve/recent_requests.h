#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace heed::serve {

/// The tokens of the newest text requests, finished or not, so that their attention can be looked
/// at: a pass over the same tokens gives the same bits. Any thread.
class RecentRequests {
 public:
  struct Choice {
    std::vector<int64_t> encoder_ids;  ///< of an encoder-decoder
    std::vector<int64_t> ids;          ///< prompt and what has been written so far
  };
  struct Found {
    std::string model;
    Choice choice;
  };

  void begin(const std::string& id, const std::string& model, size_t choices);
  void set_prompt(const std::string& id, size_t choice, const std::vector<int64_t>& prompt,
                  std::vector<int64_t> encoder_ids);
  void add_token(const std::string& id, size_t choice, int64_t token);
  /// A request as it stands now; nothing where it is unknown or too old.
  std::optional<Found> find(const std::string& id, size_t choice) const;

 private:
  struct Entry {
    std::string id, model;
    std::vector<Choice> choices;
  };
  Entry* entry(const std::string& id);

  mutable std::mutex mutex_;
  std::deque<Entry> entries_;  // the newest last
};

}  // namespace heed::serve
