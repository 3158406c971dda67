#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace heed::text::jinja {

/// An error of a template or of what it does; the interpreter adds file and line.
class TemplateError : public std::exception {
 public:
  explicit TemplateError(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

template <class... Args>
[[noreturn]] void raise(fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateError(fmt::format(format, std::forward<Args>(args)...));
}

/// What one rendering may use. A template is untrusted: each limit ends in an error.
struct Limits {
  uint64_t steps = 4'000'000;            ///< expressions, statements, elements, 256 bytes of text
  uint64_t memory = uint64_t{64} << 20;  ///< bytes of live strings, lists and dictionaries
  uint64_t output = uint64_t{16} << 20;  ///< bytes of rendered text
  uint32_t depth = 600;                  ///< nested expressions, statements and macro calls
};

/// Counts what a rendering uses. Outlives every Value made with it.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  void step(uint64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.steps) {
      raise("takes more than {} steps", limits_.steps);
    }
  }
  /// For going over a text character by character, as most filters and methods do.
  void read(std::string_view text) { step(text.size() / kBytesPerStep); }
  void allocate(uint64_t bytes) {
    require(bytes);
    memory_ += bytes;
  }
  void release(uint64_t bytes) { memory_ -= bytes; }
  /// Throws unless `bytes` more would fit.
  void require(uint64_t bytes) const {
    if (bytes > limits_.memory || memory_ > limits_.memory - bytes) {
      raise("needs more than {} bytes of memory", limits_.memory);
    }
  }
  const Limits& limits() const { return limits_; }
  uint64_t steps() const { return steps_; }
  uint64_t memory() const { return memory_; }

 private:
  static constexpr size_t kBytesPerStep = 16;

  Limits limits_;
  uint64_t steps_ = 0, memory_ = 0;
};

/// Bytes that a budget holds for the lifetime of an object.
class Reserved {
 public:
  Reserved(Budget& budget, uint64_t bytes) : budget_(&budget), bytes_(bytes) {
    budget.allocate(bytes);
  }
  ~Reserved() { budget_->release(bytes_); }
  Reserved(const Reserved&) = delete;
  Reserved& operator=(const Reserved&) = delete;

 private:
  Budget* budget_;
  uint64_t bytes_;
};

/// A string under construction, whose length is checked against the budget as it grows.
class TextBuilder {
 public:
  explicit TextBuilder(Budget& budget) : budget_(&budget) {}
  void append(std::string_view text) {
    budget_->require(text_.size() + text.size());
    budget_->step(text.size() / 256);
    text_ += text;
  }
  void append(uint64_t count, char c) {
    budget_->require(text_.size() + count);
    budget_->step(count / 256);
    text_.append(count, c);
  }
  size_t size() const { return text_.size(); }
  const std::string& text() const { return text_; }
  std::string take() { return std::move(text_); }
  Budget& budget() const { return *budget_; }

 private:
  Budget* budget_;
  std::string text_;
};

struct StringObject;
struct ListObject;
struct DictObject;
struct LoopObject;
struct CallableObject;
struct NamespaceObject;

using StringRef = std::shared_ptr<const StringObject>;
using ListRef = std::shared_ptr<const ListObject>;
using DictRef = std::shared_ptr<const DictObject>;
using LoopRef = std::shared_ptr<LoopObject>;
using CallableRef = std::shared_ptr<const CallableObject>;

/// A value that does not exist: prints as nothing, iterates over nothing, and is an error
/// elsewhere.
struct Undefined {
  StringRef name;  ///< what was looked up, for messages; may be null
};
struct None {};

/// A Python value as templates see it. Strings, lists and dictionaries are immutable and shared.
class Value {
 public:
  Value() = default;
  Value(None) : data_(None{}) {}
  Value(Undefined undefined) : data_(std::move(undefined)) {}
  Value(bool flag) : data_(flag) {}
  Value(int64_t number) : data_(number) {}
  Value(double number) : data_(number) {}
  Value(StringRef text) : data_(std::move(text)) {}
  Value(ListRef list) : data_(std::move(list)) {}
  Value(DictRef dict) : data_(std::move(dict)) {}
  Value(LoopRef loop) : data_(std::move(loop)) {}
  Value(CallableRef callable) : data_(std::move(callable)) {}
  Value(NamespaceObject* space) : data_(space) {}

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }
  template <class T>
  const T* get() const {
    return std::get_if<T>(&data_);
  }
  bool is_undefined() const { return is<Undefined>(); }
  bool is_none() const { return is<None>(); }
  bool is_string() const { return is<StringRef>(); }
  bool is_list() const { return is<ListRef>(); }
  bool is_dict() const { return is<DictRef>(); }
  /// Also a boolean, which Python counts among the integers.
  bool is_integer() const { return is<int64_t>() || is<bool>(); }
  bool is_number() const { return is_integer() || is<double>(); }

  const std::string& text() const;  ///< of a string
  bool is_safe() const;             ///< a string that is marked as safe HTML
  const ListObject& list() const { return *std::get<ListRef>(data_); }
  const DictObject& dict() const { return *std::get<DictRef>(data_); }
  int64_t integer() const { return is<bool>() ? *get<bool>() : std::get<int64_t>(data_); }
  double number() const { return is<double>() ? *get<double>() : static_cast<double>(integer()); }
  /// Python's name of the type.
  std::string_view type_name() const;

 private:
  std::variant<Undefined, None, bool, int64_t, double, StringRef, ListRef, DictRef, LoopRef,
               CallableRef, NamespaceObject*>
      data_;
};

struct StringObject {
  std::string text;
  bool safe;  ///< marked by the filter `safe`: what is added to it gets escaped as HTML
  Reserved reserved;
};

struct ListObject {
  enum class Kind { list, tuple, generator, view };
  std::vector<Value> items;
  Kind kind;
  uint32_t depth;  ///< of nested lists and dictionaries
  Reserved reserved;
};

/// A dictionary in the order of insertion.
struct DictObject {
  std::vector<std::pair<Value, Value>> items;
  std::unordered_map<std::string, size_t> index;  ///< by hash_key()
  uint32_t depth;
  Reserved reserved;
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;
};

struct NamespaceObject {
  std::vector<std::pair<std::string, Value>> attributes;
  Value* find(std::string_view name);
};

/// The variable `loop`.
struct LoopObject {
  ListRef items;
  size_t index = 0;
  uint32_t depth = 0;          ///< of recursive loops
  const void* node = nullptr;  ///< the statement, where it is recursive
  std::shared_ptr<void> scope;
  std::string last_changed;  ///< what loop.changed() saw last, as text
};

struct Macro;

struct CallableObject {
  enum class Kind { global, method, macro };
  Kind kind;
  std::string name;
  Value self;                    ///< of a method
  const Macro* macro = nullptr;  ///< owned by the interpreter
};

Value make_string(Budget& budget, std::string text, bool safe = false);
Value make_list(Budget& budget, std::vector<Value> items,
                ListObject::Kind kind = ListObject::Kind::list);
/// A key that comes twice keeps its first place and gets its last value, as in Python.
Value make_dict(Budget& budget, std::vector<std::pair<Value, Value>> items);
Value make_undefined(Budget& budget, std::string_view name);

/// Equal for keys that Python takes for equal (1, 1.0 and True); throws for what cannot be a key.
std::string hash_key(const Value& key);

bool truthy(const Value& value);
/// Python's ==.
bool equal(Budget& budget, const Value& a, const Value& b);
/// Below, equal to or above 0 as Python orders the two; throws where it has no order for them.
int compare(Budget& budget, const Value& a, const Value& b);
/// Elements of a list, keys of a dictionary, characters of a string.
std::vector<Value> iterate(Budget& budget, const Value& value);
/// Python's len().
int64_t length(const Value& value);

/// A character string's code points: their count, and the byte where number `index` begins.
size_t character_count(std::string_view text);
size_t character_offset(std::string_view text, size_t index);

}  // namespace heed::text::jinja
