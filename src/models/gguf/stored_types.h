#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/models.h"

namespace heed::gguf {

/// Mean squares of what each column of a matrix is multiplied by, by GGUF's tensor names.
using Importance = std::map<std::string, Tensor, std::less<>>;

/// An importance matrix in llama.cpp's GGUF layout: `<tensor>.in_sum2` and `<tensor>.counts`.
Importance read_importance(const std::filesystem::path& path);

/// Collects an importance matrix while a model runs in this thread.
class ImportanceCollector {
 public:
  explicit ImportanceCollector(const Model& model);
  /// Writes what read_importance() and llama.cpp read. `data` names the text, which was read in
  /// windows of `context` tokens.
  void write(const std::filesystem::path& path, const std::string& data, int64_t context) const;

 private:
  struct Sums {
    std::string name;  // GGUF's
    std::vector<float> squares;
    int64_t rows = 0;
  };
  void add(const Tensor& weight, const Tensor& input);

  std::map<const void*, Sums> sums_;  // by the weight's memory
  LinearInputScope scope_;
};

/// Which type each tensor of a GGUF file is written in: one type for all matrices, or one of
/// llama.cpp's mixtures, which give more bits to the tensors that need them. Norms, biases and
/// small tables are f32.
class StoredTypes {
 public:
  /// f32, f16, bf16, a block type that can be written, or q4_k_s, q4_k_m, q5_k_s, q5_k_m.
  static StoredTypes named(std::string_view name);
  static std::vector<std::string> names();
  /// All matrices in one type.
  explicit StoredTypes(DType type);
  /// Every matrix in the type that it has.
  StoredTypes() = default;

  void set_importance(Importance importance) { importance_ = std::move(importance); }

  /// general.file_type's number, and its name: what most of a model's weights are written in.
  uint32_t file_type(const Model& model) const;
  std::string name(const Model& model) const;
  /// The type of a tensor of `layers` layers; `tied`: the embedding is the output matrix, too.
  DType type_of(std::string_view name, const Tensor& tensor, int64_t layers, bool tied) const;
  Tensor stored(std::string_view name, const Tensor& tensor, int64_t layers, bool tied) const;

 private:
  std::optional<DType> type_;
  bool mixture_ = false;  // llama.cpp's _M
  Importance importance_;
};

/// The type in which rows of `columns` weights can be written: `type`, or where they are not a
/// multiple of its block, the next larger one that llama.cpp falls back to.
DType fitting_type(DType type, int64_t columns);

}  // namespace heed::gguf
