#include "explore/json.h"

#include "base/base64.h"
#include "base/check.h"
#include "heed/ops.h"

namespace heed::explore {
namespace {

constexpr int64_t kMostNumbers = 65536;  // of one answer

}  // namespace

void write_tensor(JsonWriter& json, const Tensor& given) {
  const bool integer = given.dtype() == DType::i64 || given.dtype() == DType::i32;
  const DType type = given.dtype() == DType::u8    ? DType::u8
                     : integer                     ? DType::i32
                     : given.dtype() == DType::f64 ? DType::f64
                                                   : DType::f32;
  const Tensor tensor = given.detach().to(type).contiguous();
  const char* name = type == DType::u8    ? "u8"
                     : type == DType::i32 ? "i32"
                     : type == DType::f64 ? "f64"
                                          : "f32";
  const size_t size = type == DType::u8 ? 1 : type == DType::f64 ? 8 : 4;
  json.begin_object().field("dtype", name);
  json.field("shape", std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end()));
  json.field("data", encode_base64({static_cast<const char*>(tensor.raw()),
                                    static_cast<size_t>(tensor.numel()) * size}));
  json.end_object();
}

void write_matrix(JsonWriter& json, const std::vector<double>& values, const Shape& shape,
                  DType type) {
  write_tensor(json, Tensor::from(values, shape).to(type));
}

void write_row(JsonWriter& json, const Row& row, DType type) {
  write_matrix(json, row, {static_cast<int64_t>(row.size())}, type);
}

void write_tokens(JsonWriter& json, const std::vector<ShownToken>& tokens) {
  json.begin_array();
  for (const ShownToken& token : tokens) {
    json.begin_object().field("id", token.id).field("label", token.label);
    json.field("text", token.text).field("special", token.special);
    json.field("group", token.group).field("word", token.word).end_object();
  }
  json.end_array();
}

void write_part(JsonWriter& json, const ScorePart& part) {
  json.begin_object().field("name", part.name).field("type", part.type);
  if (!part.kind.empty()) {
    json.field("kind", part.kind);
  }
  if (part.layer >= 0) {
    json.field("layer", part.layer);
  }
  if (part.head >= 0) {
    json.field("head", part.head);
  }
  json.end_object();
}

void write_range(JsonWriter& json, std::string_view name, int64_t begin, int64_t end) {
  json.field(name, std::vector<int64_t>{begin, end});
}

Fields::Fields(const Json& body, std::initializer_list<std::string_view> known) : body_(body) {
  body_.for_each([&](const std::string& key, const Json&) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      throw Failure(400, "invalid", fmt::format("there is no field '{}'", key), key);
    }
  });
}

template <class Get>
auto Fields::guarded(std::string_view name, const Get& get) const {
  try {
    return get();
  } catch (const Error& error) {
    throw Failure(400, "invalid", error.what(), std::string(name));
  }
}

int64_t Fields::integer(std::string_view name, int64_t low, int64_t high) const {
  return guarded(name, [&] { return body_.integer(name, low, high); });
}

int64_t Fields::integer_or(std::string_view name, int64_t otherwise, int64_t low,
                           int64_t high) const {
  return guarded(name, [&] { return body_.integer_or(name, otherwise, low, high); });
}

double Fields::number_or(std::string_view name, double otherwise, double low, double high) const {
  return guarded(name, [&] { return body_.number_or(name, otherwise, low, high); });
}

bool Fields::flag_or(std::string_view name, bool otherwise) const {
  return guarded(name, [&] { return body_.boolean_or(name, otherwise); });
}

std::string Fields::text(std::string_view name) const {
  return guarded(name, [&] { return body_.string(name); });
}

std::optional<std::string> Fields::text_if(std::string_view name) const {
  return has(name) ? std::optional(text(name)) : std::nullopt;
}

std::optional<std::vector<TokenId>> Fields::tokens_if(std::string_view name) const {
  if (!has(name)) {
    return std::nullopt;
  }
  const auto ids = guarded(name, [&] { return body_.at(name).integers(0, INT32_MAX); });
  return std::vector<TokenId>(ids.begin(), ids.end());
}

std::pair<int64_t, int64_t> Fields::range(std::string_view name, int64_t size, int64_t most,
                                          bool otherwise_all) const {
  if (otherwise_all && !has(name)) {
    return {0, size};
  }
  const std::vector<int64_t> ends = guarded(name, [&] { return body_.at(name).integers(0, size); });
  if (ends.size() != 2 || ends[0] >= ends[1]) {
    throw Failure(400, "invalid", fmt::format("'{}' must be [from, to) within 0 … {}", name, size),
                  std::string(name));
  }
  if (ends[1] - ends[0] > most) {
    throw Failure(413, "too_large",
                  fmt::format("'{}' asks for {} rows; at most {}", name, ends[1] - ends[0], most),
                  std::string(name));
  }
  return {ends[0], ends[1]};
}

std::string answer_part(const Fields& fields, const Shape& shape, int64_t rows, int64_t columns,
                        const std::function<Tensor(int64_t begin, int64_t end)>& rows_of) {
  const auto [r0, r1] = fields.range("rows", rows, INT64_MAX, true);
  const auto [c0, c1] = fields.range("columns", columns, INT64_MAX, true);
  const int64_t count = (r1 - r0) * (c1 - c0);
  if (count > kMostNumbers) {
    throw Failure(413, "too_large",
                  fmt::format("{} numbers are asked for; at most {}", count, kMostNumbers), "rows");
  }
  JsonWriter json;
  json.begin_object().field("name", fields.text("name"));
  json.field("shape", std::vector<int64_t>(shape.begin(), shape.end()));
  write_range(json, "rows", r0, r1);
  write_range(json, "columns", c0, c1);
  json.key("values");
  write_tensor(json, slice(rows_of(r0, r1), 1, c0, c1));
  return json.end_object().take();
}

}  // namespace heed::explore
