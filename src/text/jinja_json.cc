#include <nlohmann/json.hpp>

#include "base/check.h"
#include "io/json_limits.h"
#include "text/jinja_print.h"

namespace heed::text::jinja {
namespace {

/// Builds values in the order in which the text has them, which Json does not keep.
class ValueBuilder {
 public:
  explicit ValueBuilder(Budget& budget) : budget_(&budget) {}

  bool null() { return add(None{}); }
  bool boolean(bool flag) { return add(flag); }
  bool number_integer(int64_t number) { return add(number); }
  bool number_unsigned(uint64_t number) {
    const auto limit = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return number <= limit ? add(static_cast<int64_t>(number)) : add(static_cast<double>(number));
  }
  bool number_float(double number, const std::string&) { return add(number); }
  bool string(std::string& text) { return add(make_string(*budget_, text)); }
  bool binary(std::vector<uint8_t>&) { return false; }
  bool start_object(size_t) { return open(true); }
  bool start_array(size_t) { return open(false); }
  bool key(std::string& name) {
    open_.back().key = make_string(*budget_, name);
    return true;
  }
  bool end_object() {
    Value value = make_dict(*budget_, std::move(open_.back().members));
    open_.pop_back();
    return add(std::move(value));
  }
  bool end_array() {
    Value value = make_list(*budget_, std::move(open_.back().items));
    open_.pop_back();
    return add(std::move(value));
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
    error_at = position;
    return false;
  }

  Value result;
  size_t error_at = 0;

 private:
  struct Open {
    bool object;
    Value key;
    std::vector<Value> items;
    std::vector<std::pair<Value, Value>> members;
  };

  bool open(bool object) {
    open_.push_back({object, {}, {}, {}});
    return true;
  }
  bool add(Value value) {
    budget_->step();
    if (open_.empty()) {
      result = std::move(value);
    } else if (open_.back().object) {
      open_.back().members.emplace_back(std::move(open_.back().key), std::move(value));
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }

  Budget* budget_;
  std::vector<Open> open_;
};

}  // namespace

Value from_json(Budget& budget, std::string_view json, const std::string& name) {
  check_json_limits(json, name, {.depth = 64, .values = 1'000'000, .token = uint64_t{16} << 20});
  ValueBuilder builder(budget);
  const bool good = nlohmann::json::sax_parse(json.begin(), json.end(), &builder);
  check_data(good, name, "is not valid JSON at byte {}", builder.error_at);
  return builder.result;
}

}  // namespace heed::text::jinja
