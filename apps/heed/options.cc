#include "heed/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace heed::app {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) {
      return parts;
    }
    begin = end + 1;
  }
}

/// What `--help` shows as the default: nothing for what is empty, off or chosen later.
struct DefaultText {
  std::string operator()(const bool*) const { return ""; }
  std::string operator()(const std::string* value) const { return *value; }
  std::string operator()(const std::filesystem::path* value) const { return value->string(); }
  template <class T>
  std::string operator()(const std::optional<T>*) const {
    return "";
  }
  template <class T>
  std::string operator()(const std::vector<T>*) const {
    return "";
  }
  template <class T>
  std::string operator()(const T* value) const {
    return *value < T{0} ? std::string() : fmt::format("{}", *value);
  }
};

template <class T>
T whole_number(const Option& option, const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail(ErrorKind::usage, option.name(), "'{}' is not a whole number in range", text);
  }
  return value;
}

double real_number(const Option& option, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    fail(ErrorKind::usage, option.name(), "'{}' is not a number", text);
  }
  return value;
}

bool truth(const Option& option, const std::string& text) {
  for (const char* yes : {"1", "true", "yes", "on"}) {
    if (text == yes) {
      return true;
    }
  }
  for (const char* no : {"0", "false", "no", "off"}) {
    if (text == no) {
      return false;
    }
  }
  fail(ErrorKind::usage, option.name(), "'{}' is neither true nor false", text);
}

}  // namespace

Option::Option(const std::string& names, Target target, std::string help, std::string group)
    : target_(target), help_(std::move(help)), group_(std::move(group)) {
  for (const std::string& name : split(names, ',')) {
    const bool better = name_.empty() || (!name_.starts_with("--") && name.starts_with("--"));
    if (better && !name_.empty()) {
      aliases_.push_back(name_);
    }
    (better ? name_ : aliases_.emplace_back()) = name;
  }
  default_ = std::visit(DefaultText{}, target_);
}

Option& Option::required() {
  required_ = true;
  return *this;
}

Option& Option::range(double low, double high) {
  range_ = {low, high};
  if (!default_.empty() && default_ == "0" && low > 0) {
    default_.clear();  // 0 stands for "chosen later"
  }
  return *this;
}

Option& Option::choices(std::vector<std::string> values) {
  choices_ = std::move(values);
  return *this;
}

Option& Option::group(std::string name) {
  group_ = std::move(name);
  return *this;
}

Option& Option::count(size_t values) {
  count_ = values;
  return *this;
}

Option& Option::file() {
  file_ = true;
  return *this;
}

bool Option::is_list() const { return std::holds_alternative<std::vector<std::string>*>(target_); }

std::string Option::value_name() const {
  if (!choices_.empty()) {
    return fmt::format("{}", fmt::join(choices_, "|"));
  }
  if (is_flag()) {
    return "";
  }
  if (std::holds_alternative<std::vector<int64_t>*>(target_)) {
    return "N,N";
  }
  if (std::holds_alternative<double*>(target_) ||
      std::holds_alternative<std::optional<double>*>(target_)) {
    return "X";
  }
  if (std::holds_alternative<int*>(target_) || std::holds_alternative<int64_t*>(target_) ||
      std::holds_alternative<uint64_t*>(target_)) {
    return "N";
  }
  return file_ ? "FILE" : "TEXT";
}

std::string Option::environment() const {
  if (is_positional()) {
    return "";
  }
  std::string name = "HEED_";
  for (const char c : name_.substr(name_.find_first_not_of('-'))) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

void Option::assign(std::vector<std::string> values) {
  if (values.empty()) {
    return;
  }
  for (std::string& value : values) {
    if (value.starts_with(kValueMark)) {
      value.erase(0, 1);
    }
  }
  if (file_ && std::find(values.begin(), values.end(), std::string()) != values.end()) {
    fail(ErrorKind::usage, name_, "is empty; expected the name of a file");
  }
  const std::string& last = values.back();
  const auto in_range = [&](auto number) {
    if (range_) {
      const auto value = static_cast<double>(number);
      if (value < range_->first || value > range_->second) {
        fail(ErrorKind::usage, name_, "{} is not in {} … {}", number, range_->first,
             range_->second);
      }
    }
    return number;
  };
  if (!choices_.empty() && std::find(choices_.begin(), choices_.end(), last) == choices_.end()) {
    const std::string near = nearest(last, choices_);
    const std::string all = fmt::format("{}", fmt::join(choices_, ", "));
    if (!near.empty()) {
      fail(ErrorKind::usage, name_, "'{}' is not one of {}; did you mean {}?", last, all, near);
    }
    fail(ErrorKind::usage, name_, "'{}' is not one of {}", last, all);
  }
  struct Assign {
    const Option& option;
    const std::vector<std::string>& values;
    const std::string& last;
    const decltype(in_range)& checked;
    size_t count;
    void operator()(bool* value) const { *value = truth(option, last); }
    void operator()(int* value) const { *value = checked(whole_number<int>(option, last)); }
    void operator()(int64_t* value) const { *value = checked(whole_number<int64_t>(option, last)); }
    void operator()(uint64_t* value) const {
      *value = checked(whole_number<uint64_t>(option, last));
    }
    void operator()(double* value) const { *value = checked(real_number(option, last)); }
    void operator()(std::string* value) const { *value = last; }
    void operator()(std::filesystem::path* value) const { *value = last; }
    void operator()(std::optional<double>* value) const {
      *value = checked(real_number(option, last));
    }
    void operator()(std::optional<std::string>* value) const { *value = last; }
    void operator()(std::vector<std::string>* value) const { *value = values; }
    void operator()(std::vector<int64_t>* value) const {
      value->clear();
      for (const std::string& part : split(last, ',')) {
        value->push_back(checked(whole_number<int64_t>(option, part)));
      }
      if (count != 0 && value->size() != count) {
        fail(ErrorKind::usage, option.name(), "'{}' must be {} numbers, separated by commas", last,
             count);
      }
    }
  };
  std::visit(Assign{*this, values, last, in_range, count_}, target_);
  values_ = values;
}

Option& OptionTable::add(const std::string& names, Option::Target target, std::string help) {
  return all_.emplace_back(names, target, std::move(help), group_);
}

Option* OptionTable::find(const std::string& name) {
  for (Option& option : all_) {
    if (option.name() == name || std::find(option.aliases().begin(), option.aliases().end(),
                                           name) != option.aliases().end()) {
      return &option;
    }
  }
  return nullptr;
}

void OptionTable::assign_given(const OptionTable& other) {
  for (const Option& given : other.all()) {
    Option* mine = given.given() ? find(given.name()) : nullptr;
    if (mine != nullptr) {
      mine->assign(given.values());
    }
  }
}

std::string nearest(const std::string& typed, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, typed.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    // Edit distance with swapped neighbours as one slip.
    const size_t rows = typed.size() + 1, columns = candidate.size() + 1;
    std::vector<size_t> table(rows * columns);
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < columns; ++j) {
        size_t& cell = table[i * columns + j];
        if (i == 0 || j == 0) {
          cell = i + j;
          continue;
        }
        const bool same = typed[i - 1] == candidate[j - 1];
        cell = std::min({table[(i - 1) * columns + j] + 1, table[i * columns + j - 1] + 1,
                         table[(i - 1) * columns + j - 1] + (same ? 0 : 1)});
        if (i > 1 && j > 1 && typed[i - 1] == candidate[j - 2] &&
            typed[i - 2] == candidate[j - 1]) {
          cell = std::min(cell, table[(i - 2) * columns + j - 2] + 1);
        }
      }
    }
    const bool longer = candidate.starts_with(typed) && typed.size() > 3;
    const size_t distance = longer ? 1 : table.back();
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace heed::app
