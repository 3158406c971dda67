#include "io/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/check.h"
#include "base/utf8.h"
#include "io/json_limits.h"
#include "io/json_problem.h"

namespace heed {
namespace {

constexpr uint64_t kMaxEntries = 100'000;  // the largest checkpoints have a few thousand per file

struct ElementType {
  std::string_view name;
  uint64_t bytes;
};
constexpr ElementType kElementTypes[] = {
    {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8}, {"I32", 4},
    {"I16", 2}, {"I8", 1},  {"U32", 4}, {"U16", 2},  {"U8", 1},  {"BOOL", 1},
};

/// Receives the header's JSON event by event, so that duplicate keys are seen and nothing but the
/// fields of the format is ever stored.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view file) : file_(file) {}
  SafetensorsHeader take() { return std::move(header_); }

  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  bool null() { return refuse("null"); }
  bool boolean(bool) { return refuse("a boolean"); }
  bool number_integer(number_integer_t value) {
    fail(ErrorKind::data, file_, "{}: {} is negative", location(), value);
  }
  bool number_float(number_float_t, const string_t& text) {
    fail(ErrorKind::data, file_, "{}: {} is not a 64-bit whole number", location(), quote(text));
  }
  bool binary(binary_t&) { return refuse("binary data"); }

  bool number_unsigned(number_unsigned_t value) {
    if (state_ == State::shape) {
      check_data(value < (uint64_t{1} << 60), file_, "{}: dimension {} is too large", location(),
                 value);
      check_data(entry_.shape.rank() < Shape::kMaxRank, file_, "{}: more than {} dimensions",
                 location(), Shape::kMaxRank);
      entry_.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (state_ == State::offsets) {
      check_data(offsets_ < 2, file_, "{}: more than two numbers", location());
      (offsets_ == 0 ? entry_.begin : entry_.end) = value;
      ++offsets_;
      return true;
    }
    return refuse("a number");
  }

  bool string(string_t& value) {
    if (state_ == State::metadata) {
      header_.metadata[key_] = std::move(value);
      return true;
    }
    if (state_ == State::entry && field_ == Field::dtype) {
      entry_.dtype = std::move(value);
      return true;
    }
    return refuse("a string");
  }

  bool start_object(size_t) {
    switch (state_) {
      case State::start:
        state_ = State::root;
        return true;
      case State::root:
        if (entry_.name == "__metadata__") {
          state_ = State::metadata;
        } else {
          state_ = State::entry;
          seen_ = 0;
          field_ = Field::none;
        }
        return true;
      default:
        return refuse("an object");
    }
  }

  bool key(string_t& name) {
    if (state_ == State::root) {
      check_data(names_.insert(name).second, file_, "duplicate tensor {}", quote(name));
      check_data(names_.size() <= kMaxEntries + 1, file_, "more than {} tensors in one file",
                 kMaxEntries);
      entry_ = {};
      entry_.name = std::move(name);
    } else if (state_ == State::metadata) {
      check_data(header_.metadata.find(name) == header_.metadata.end(), file_,
                 "__metadata__: duplicate key {}", quote(name));
      check_data(header_.metadata.size() < kMaxEntries, file_, "__metadata__: more than {} strings",
                 kMaxEntries);
      key_ = std::move(name);
    } else {
      entry_field(name);
    }
    return true;
  }

  bool start_array(size_t) {
    check_data(state_ == State::entry && (field_ == Field::shape || field_ == Field::offsets),
               file_, "{}: an array is not expected here", location());
    state_ = field_ == Field::shape ? State::shape : State::offsets;
    offsets_ = 0;
    return true;
  }

  bool end_array() {
    check_data(state_ != State::offsets || offsets_ == 2, file_, "{}: two numbers are wanted",
               location());
    state_ = State::entry;
    return true;
  }

  bool end_object() {
    if (state_ == State::entry) {
      check_data(seen_ == 7, file_, "{}: dtype, shape and data_offsets are required", location());
      header_.entries.push_back(std::move(entry_));
      state_ = State::root;
    } else if (state_ == State::metadata) {
      state_ = State::root;
    } else {
      state_ = State::start;
    }
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
    // The library's text may quote the whole of a bad token.
    fail(ErrorKind::data, file_, "the header is not valid JSON at its byte {}: {}", position,
         json_problem(error.what()));
  }

 private:
  enum class State { start, root, metadata, entry, shape, offsets };
  enum class Field { none = 0, dtype = 1, shape = 2, offsets = 4 };

  void entry_field(const std::string& name) {
    field_ = name == "dtype"          ? Field::dtype
             : name == "shape"        ? Field::shape
             : name == "data_offsets" ? Field::offsets
                                      : Field::none;
    check_data(field_ != Field::none, file_, "{}: unknown field {}", location(), quote(name));
    const auto bit = static_cast<unsigned>(field_);
    check_data((seen_ & bit) == 0, file_, "{}: duplicate field {}", location(), name);
    seen_ |= bit;
  }

  [[noreturn]] bool refuse(std::string_view what) {
    fail(ErrorKind::data, file_, "{}: {} is not expected here", location(), what);
  }

  std::string location() const {
    if (state_ == State::metadata) {
      return "__metadata__: " + quote(key_);
    }
    static constexpr std::string_view kFields[] = {"", ": dtype", ": shape", "", ": data_offsets"};
    const std::string_view field =
        state_ == State::root ? "" : kFields[static_cast<size_t>(field_)];
    return fmt::format("tensor {}{}", quote(entry_.name), field);
  }

  std::string_view file_;
  SafetensorsHeader header_;
  State state_ = State::start;
  Field field_ = Field::none;
  SafetensorsEntry entry_;
  std::string key_;    // in __metadata__
  unsigned seen_ = 0;  // fields of the entry
  int offsets_ = 0;
  std::unordered_set<std::string> names_;
};

/// shape × dtype = bytes, without overflow.
void check_size(const SafetensorsEntry& entry, std::string_view file) {
  const uint64_t element = safetensors_element_bytes(entry.dtype);
  check_data(element != 0, file,
             "tensor {}: dtype {} is not supported; F64, F32, F16, BF16, I64, I32, I16, I8, U32, "
             "U16, U8 and BOOL are",
             quote(entry.name), quote(entry.dtype));
  check_data(entry.begin <= entry.end, file, "tensor {}: data_offsets [{}, {}] are reversed",
             quote(entry.name), entry.begin, entry.end);
  uint64_t wanted = element;
  bool fits = true;
  const bool empty = std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end();
  for (const int64_t size : entry.shape) {
    fits =
        fits && !__builtin_mul_overflow(wanted, static_cast<uint64_t>(empty ? 1 : size), &wanted);
  }
  wanted = empty ? 0 : wanted;
  check_data(fits, file, "tensor {}: shape {} overflows", quote(entry.name), entry.shape);
  check_data(wanted == entry.end - entry.begin, file,
             "tensor {}: shape {} of {} takes {} bytes, data_offsets [{}, {}] give {}",
             quote(entry.name), entry.shape, entry.dtype, wanted, entry.begin, entry.end,
             entry.end - entry.begin);
}

/// Sorts by offset and checks that the tensors are contiguous from 0 to data_bytes.
void check_layout(std::vector<SafetensorsEntry>& entries, uint64_t data_bytes,
                  std::string_view file) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  uint64_t at = 0;
  for (const SafetensorsEntry& entry : entries) {
    check_data(entry.begin >= at, file, "tensor {}: starts at {}, inside the one before it",
               quote(entry.name), entry.begin);
    check_data(entry.begin == at, file,
               "tensor {}: starts at {}, {} unused bytes after the one before", quote(entry.name),
               entry.begin, entry.begin - at);
    check_data(entry.end <= data_bytes, file,
               "tensor {}: ends at {}, the file holds {} bytes of data", quote(entry.name),
               entry.end, data_bytes);
    at = entry.end;
  }
  check_data(at == data_bytes, file, "{} bytes of data, of which the tensors use {}", data_bytes,
             at);
}

}  // namespace

uint64_t safetensors_element_bytes(std::string_view dtype) {
  for (const ElementType& type : kElementTypes) {
    if (type.name == dtype) {
      return type.bytes;
    }
  }
  return 0;
}

SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                           std::string_view file) {
  JsonLimits limits;
  limits.depth = 3;
  limits.values = kMaxEntries * 8;
  check_json_limits(json, file, limits);
  check_data(json.starts_with('{'), file, "the header does not start with '{{'");
  HeaderReader reader(file);
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  SafetensorsHeader header = reader.take();
  for (const SafetensorsEntry& entry : header.entries) {
    check_size(entry, file);
  }
  check_layout(header.entries, data_bytes, file);
  return header;
}

}  // namespace heed
