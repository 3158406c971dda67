#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

namespace heed {

/// Writes metrics and texts for TensorBoard: an events.out.tfevents file in a folder, TFRecord
/// frames around TensorFlow's Event messages.
class EventFile {
 public:
  /// A new file in `folder`. If a run is resumed, `first_step` is the next one: TensorBoard forgets
  /// what earlier files have from there on.
  EventFile(const std::filesystem::path& folder, int64_t first_step);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  void add_scalar(std::string_view tag, int64_t step, double value);
  void add_text(std::string_view tag, int64_t step, std::string_view text);
  /// Hands what was added to the system; an error where it cannot be written.
  void flush();

 private:
  void write_event(int64_t step, int field, std::string_view message);

  std::filesystem::path path_;
  std::FILE* file_ = nullptr;
  bool failed_ = false;
};

}  // namespace heed
