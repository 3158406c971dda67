#pragma once

#include "explore/trace.h"
#include "io/json_writer.h"

namespace heed::explore {

/// A tensor of the protocol: dtype, shape and base64.
void write_tensor(JsonWriter& json, const Tensor& tensor);
void write_row(JsonWriter& json, const Row& row, DType type = DType::f32);
void write_matrix(JsonWriter& json, const std::vector<double>& values, const Shape& shape,
                  DType type);
void write_tokens(JsonWriter& json, const std::vector<ShownToken>& tokens);
void write_part(JsonWriter& json, const ScorePart& part);
void write_range(JsonWriter& json, std::string_view name, int64_t begin, int64_t end);

/// Fields of a request, checked: Failure 400 that names the field.
class Fields {
 public:
  /// Refuses what is not among `known`.
  Fields(const Json& body, std::initializer_list<std::string_view> known);
  bool has(std::string_view name) const { return body_.has(name); }
  int64_t integer(std::string_view name, int64_t low, int64_t high) const;
  int64_t integer_or(std::string_view name, int64_t otherwise, int64_t low, int64_t high) const;
  double number_or(std::string_view name, double otherwise, double low, double high) const;
  bool flag_or(std::string_view name, bool otherwise) const;
  std::string text(std::string_view name) const;
  std::optional<std::string> text_if(std::string_view name) const;
  /// A list of token ids.
  std::optional<std::vector<TokenId>> tokens_if(std::string_view name) const;
  /// A half-open range within [0, size); all of it where absent and `otherwise_all`.
  std::pair<int64_t, int64_t> range(std::string_view name, int64_t size, int64_t most,
                                    bool otherwise_all = false) const;
  const Json& json() const { return body_; }

 private:
  template <class Get>
  auto guarded(std::string_view name, const Get& get) const;
  Json body_;
};

/// Answers with the part of a matrix [rows, columns] that the fields `rows` and `columns` ask for;
/// Failure 413 where that is too much. `rows_of(begin, end)` gives whole rows, `shape` is what the
/// answer says of the tensor itself.
std::string answer_part(const Fields& fields, const Shape& shape, int64_t rows, int64_t columns,
                        const std::function<Tensor(int64_t begin, int64_t end)>& rows_of);

}  // namespace heed::explore
