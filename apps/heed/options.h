#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace heed::app {

/// Stands before a word of the command line that is a value although it begins with a dash.
inline constexpr char kValueMark = '\x01';

/// One option, flag or positional of a subcommand: a row of the table that parsing, `--help`,
/// shell completion and the manual pages are made from. The value it fills lives with the command
/// and holds the default.
class Option {
 public:
  using Target =
      std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*, std::filesystem::path*,
                   std::optional<double>*, std::optional<std::string>*, std::vector<std::string>*,
                   std::vector<int64_t>*>;

  Option(const std::string& names, Target target, std::string help, std::string group);

  Option& required();
  Option& range(double low, double high);  ///< for numbers, each of a list
  Option& choices(std::vector<std::string> values);
  Option& group(std::string name);
  Option& count(size_t values);  ///< a list of exactly so many, separated by commas
  Option& file();                ///< completion offers files

  /// `--long`, or the name of a positional.
  const std::string& name() const { return name_; }
  const std::vector<std::string>& aliases() const { return aliases_; }  ///< `-o`, second names
  const std::string& help() const { return help_; }
  const std::string& group() const { return group_; }
  const std::vector<std::string>& choices() const { return choices_; }
  const std::string& default_text() const { return default_; }  ///< empty where there is none
  bool is_flag() const { return std::holds_alternative<bool*>(target_); }
  bool is_list() const;
  bool is_positional() const { return name_.front() != '-'; }
  bool is_required() const { return required_; }
  bool is_file() const { return file_; }
  std::string value_name() const;   ///< TEXT, N, X, FILE or the choices
  std::string environment() const;  ///< HEED_LONG_NAME; empty for a positional

  /// Whether a value came from the command line or the environment.
  bool given() const { return !values_.empty(); }
  const std::vector<std::string>& values() const { return values_; }
  /// Takes values as text; what does not fit is a usage error that names the option.
  void assign(std::vector<std::string> values);

 private:
  std::string name_;
  std::vector<std::string> aliases_;
  Target target_;
  std::string help_, group_, default_;
  std::vector<std::string> choices_;
  std::optional<std::pair<double, double>> range_;
  size_t count_ = 0;
  bool required_ = false;
  bool file_ = false;
  std::vector<std::string> values_;
};

/// The options of one subcommand, in the order in which they are shown.
class OptionTable {
 public:
  /// `names`: "--long", "-s,--long" or, without dashes, a positional.
  Option& add(const std::string& names, Option::Target target, std::string help);
  /// Options added from here on stand under this heading.
  void group(std::string name) { group_ = std::move(name); }

  const std::deque<Option>& all() const { return all_; }
  std::deque<Option>& all() { return all_; }
  Option* find(const std::string& name);
  /// Takes over what was given to another table with the same names.
  void assign_given(const OptionTable& other);

 private:
  std::deque<Option> all_;  // addresses stay
  std::string group_ = "Options";
};

/// The candidate nearest to what was typed, empty where none is near.
std::string nearest(const std::string& typed, const std::vector<std::string>& candidates);

}  // namespace heed::app
