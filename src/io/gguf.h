#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "heed/io.h"

namespace heed {

/// Types of metadata values, by their numbers in the file.
enum class GgufType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

/// A metadata value where it lies in the mapped file, checked when the file was opened.
struct GgufValue {
  GgufType type = GgufType::u8;  ///< of the value, or of an array's elements
  bool is_array = false;
  uint64_t count = 1;               ///< elements of an array
  std::span<const std::byte> data;  ///< strings with their lengths before them
};

/// A GGUF file, mapped. Everything in it is checked when it is opened. Getters throw kind data with
/// the file and the key where a value is absent, of another type or out of range.
///
/// A model in several files (`name-00001-of-00003.gguf`) is opened by any of them: metadata come
/// from the first, tensors from all.
class GgufFile {
 public:
  explicit GgufFile(const std::filesystem::path& path);

  const std::string& file() const { return mapping_->path().native(); }
  bool has(std::string_view key) const { return values_.find(key) != values_.end(); }
  const std::map<std::string, GgufValue, std::less<>>& values() const { return values_; }

  std::string string(std::string_view key) const;
  int64_t integer(std::string_view key, int64_t low, int64_t high) const;
  double number(std::string_view key, double low, double high) const;
  bool boolean(std::string_view key) const;
  std::string string_or(std::string_view key, std::string_view otherwise) const;
  int64_t integer_or(std::string_view key, int64_t otherwise, int64_t low, int64_t high) const;
  double number_or(std::string_view key, double otherwise, double low, double high) const;
  bool boolean_or(std::string_view key, bool otherwise) const;

  std::vector<std::string> strings(std::string_view key) const;
  std::vector<int64_t> integers(std::string_view key, int64_t low, int64_t high) const;
  std::vector<double> numbers(std::string_view key) const;

  /// Borrowed from the mapping. Shapes are in row-major order: the reverse of the file's.
  const TensorMap& tensors() const { return tensors_; }

 private:
  struct OneFile {};
  GgufFile(const std::filesystem::path& path, OneFile);
  void add_shards();
  const GgufValue& scalar(std::string_view key) const;
  const GgufValue& array(std::string_view key) const;
  [[noreturn]] void wanted(std::string_view key, std::string_view found,
                           std::string_view what) const;
  int64_t integer_at(std::string_view key, const GgufValue& value, uint64_t index, int64_t low,
                     int64_t high) const;
  double number_at(std::string_view key, const GgufValue& value, uint64_t index) const;

  std::shared_ptr<MappedFile> mapping_;
  std::map<std::string, GgufValue, std::less<>> values_;
  TensorMap tensors_;
};

/// Collects metadata and tensors and writes them in the order of the calls.
class GgufWriter {
 public:
  void string(std::string_view key, std::string_view value);
  void u32(std::string_view key, uint32_t value);
  void u64(std::string_view key, uint64_t value);
  void f32(std::string_view key, float value);
  void boolean(std::string_view key, bool value);
  void strings(std::string_view key, const std::vector<std::string>& values);
  void i32s(std::string_view key, const std::vector<int32_t>& values);
  void f32s(std::string_view key, const std::vector<float>& values);
  /// As it was in a file that was read.
  void value(std::string_view key, const GgufValue& value);
  void tensor(std::string_view name, const Tensor& tensor);

  /// Replaces `path` in one step.
  void write(const std::filesystem::path& path) const;

 private:
  void begin(std::string_view key, GgufType type);
  void begin_array(std::string_view key, GgufType type, uint64_t count);

  std::set<std::string, std::less<>> keys_;
  std::string metadata_;
  std::vector<std::pair<std::string, Tensor>> tensors_;
};

}  // namespace heed
