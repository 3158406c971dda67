#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/io.h"
#include "io/json_writer.h"

namespace heed::serve {

/// A request that a client got wrong: `status` and OpenAI's `param` and `code`.
class BadRequest : public std::runtime_error {
 public:
  explicit BadRequest(const std::string& message, std::string param = {}, std::string code = {},
                      int status = 400)
      : std::runtime_error(message),
        status_(status),
        param_(std::move(param)),
        code_(std::move(code)) {}
  int status() const { return status_; }
  const std::string& param() const { return param_; }
  const std::string& code() const { return code_; }
  /// In place of the type that goes with the status.
  const std::string& type() const { return type_; }
  void set_type(std::string type) { type_ = std::move(type); }
  /// A number that a program may want, beside the message.
  const std::vector<std::pair<std::string, int64_t>>& numbers() const { return numbers_; }
  void add_number(std::string name, int64_t value) {
    numbers_.emplace_back(std::move(name), value);
  }

 private:
  int status_;
  std::string param_, code_, type_;
  std::vector<std::pair<std::string, int64_t>> numbers_;
};

enum class FieldType {
  boolean,
  integer,
  number,
  string,
  strings,     ///< a string or a list of strings
  object,      ///< with `members`, or free where there are none
  objects,     ///< a list of objects with `members`
  list,        ///< a list of anything; the handler looks closer
  any,         ///< the handler looks closer
  number_map,  ///< an object whose values are numbers within the range
};

/// One field of a JSON body: what it may be, what it means. Requests are validated from it,
/// /openapi.json is made from it and the tests walk it.
struct Field {
  std::string name;
  FieldType type = FieldType::any;
  std::string description;
  /// Of an integer, a number or a map's values: least and greatest value. Of a string: bytes. Of a
  /// list: items.
  double low = 0.0;
  double high = 0.0;
  std::string fallback = {};  ///< the default, as JSON; empty: none
  bool required = false;
  std::vector<std::string> choices = {};  ///< of a string
  std::vector<Field> members = {};
  double item_high = 1 << 20;            ///< of `strings`: bytes of one string
  std::vector<std::string> shapes = {};  ///< of `any`: JSON schemas of what the handler takes

  Field& must() {
    required = true;
    return *this;
  }
  Field& at_least(double count) {
    low = count;
    return *this;
  }
};

// The rows of the table read as what they are: integer_field("n", 1, 128, "1", "…").
Field boolean_field(std::string name, std::string fallback, std::string description);
Field integer_field(std::string name, double low, double high, std::string fallback,
                    std::string description);
Field number_field(std::string name, double low, double high, std::string fallback,
                   std::string description);
Field string_field(std::string name, double most_bytes, std::string description);
Field choice_field(std::string name, std::vector<std::string> choices, std::string fallback,
                   std::string description);
Field strings_field(std::string name, double most, std::string description);
Field list_field(std::string name, double most, std::string description);
Field object_field(std::string name, std::vector<Field> members, std::string description);
Field objects_field(std::string name, double most, std::vector<Field> members,
                    std::string description);
Field any_field(std::string name, std::vector<std::string> shapes, std::string description);
Field number_map_field(std::string name, double low, double high, double most,
                       std::string description);

/// Throws BadRequest that names the field where `value` is not what `field` describes. `path` is
/// the field's name with those of the objects around it.
void validate_field(const Field& field, const Json& value, const std::string& path);
/// Validates all fields of an object. Gives the names of those that the table does not have.
std::vector<std::string> validate_object(const std::vector<Field>& fields, const Json& object,
                                         const std::string& path = {});

/// The JSON schema of a field (OpenAPI 3.1 uses JSON Schema 2020-12).
void write_schema(JsonWriter& json, const Field& field);
void write_object_schema(JsonWriter& json, const std::vector<Field>& fields);

}  // namespace heed::serve
