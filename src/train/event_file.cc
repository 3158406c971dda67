#include "train/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstring>

#include "base/check.h"

namespace heed {
namespace {

// CRC-32C (Castagnoli), by table; the events are a few bytes per step.
constexpr std::array<uint32_t, 256> make_table() {
  constexpr uint32_t kReversed = 0x82f63b78;
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = value & 1 ? value >> 1 ^ kReversed : value >> 1;
    }
    table[i] = value;
  }
  return table;
}

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = make_table();
  uint32_t value = 0xffffffff;
  for (const char byte : bytes) {
    value = value >> 8 ^ kTable[(value ^ static_cast<unsigned char>(byte)) & 0xff];
  }
  return ~value;
}

/// TFRecord's mask, so that checksums of checksums do not go wrong.
uint32_t masked(uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8; }

template <class T>
void append_bytes(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

// Protocol buffers: a field is its number and wire type, then the value.
void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    out += static_cast<char>(value | 0x80);
  }
  out += static_cast<char>(value);
}
void append_tag(std::string& out, int field, int wire) {
  append_varint(out, static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire));
}
void append_number(std::string& out, int field, int64_t value) {
  append_tag(out, field, 0);
  append_varint(out, static_cast<uint64_t>(value));
}
void append_double(std::string& out, int field, double value) {
  append_tag(out, field, 1);
  append_bytes(out, value);
}
void append_float(std::string& out, int field, float value) {
  append_tag(out, field, 5);
  append_bytes(out, value);
}
void append_message(std::string& out, int field, std::string_view bytes) {
  append_tag(out, field, 2);
  append_varint(out, bytes.size());
  out += bytes;
}

// Fields of Event, Summary, Summary.Value, SummaryMetadata and TensorProto.
enum Event { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum Value { kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9 };

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder, int64_t first_step) {
  char host[256] = "localhost";
  gethostname(host, sizeof(host) - 1);
  path_ = folder / fmt::format("events.out.tfevents.{}.{}.{}.0", static_cast<int64_t>(wall_time()),
                               host, getpid());
  file_ = std::fopen(path_.c_str(), "ab");
  if (file_ == nullptr) {
    fail(ErrorKind::runtime, path_.native(), "cannot be written");
  }
  write_event(0, kFileVersion, "brain.Event:2");
  if (first_step > 1) {
    std::string start;
    append_number(start, 1, 1);  // SessionLog.status = START
    write_event(first_step, kSessionLog, start);
  }
}

EventFile::~EventFile() { std::fclose(file_); }

void EventFile::write_event(int64_t step, int field, std::string_view message) {
  std::string event;
  append_double(event, kWallTime, wall_time());
  append_number(event, kStep, step);
  append_message(event, field, message);
  std::string frame;
  append_bytes<uint64_t>(frame, event.size());
  append_bytes<uint32_t>(frame, masked(crc32c(frame)));
  frame += event;
  append_bytes<uint32_t>(frame, masked(crc32c(event)));
  failed_ = std::fwrite(frame.data(), 1, frame.size(), file_) != frame.size() || failed_;
}

void EventFile::add_scalar(std::string_view tag, int64_t step, double value) {
  std::string entry;
  append_message(entry, kTag, tag);
  append_float(entry, kSimpleValue, static_cast<float>(value));
  std::string summary;
  append_message(summary, 1, entry);
  write_event(step, kSummary, summary);
}

void EventFile::add_text(std::string_view tag, int64_t step, std::string_view text) {
  std::string plugin;
  append_message(plugin, 1, "text");
  std::string metadata;
  append_message(metadata, 1, plugin);
  std::string size;
  append_number(size, 1, 1);
  std::string shape;
  append_message(shape, 2, size);
  constexpr int64_t kString = 7;
  std::string tensor;
  append_number(tensor, 1, kString);
  append_message(tensor, 2, shape);
  append_message(tensor, 8, text);
  std::string entry;
  append_message(entry, kTag, tag);
  append_message(entry, kMetadata, metadata);
  append_message(entry, kTensor, tensor);
  std::string summary;
  append_message(summary, 1, entry);
  write_event(step, kSummary, summary);
}

void EventFile::flush() {
  if (std::fflush(file_) != 0 || failed_) {
    fail(ErrorKind::runtime, path_.native(), "cannot be written");
  }
}

}  // namespace heed
