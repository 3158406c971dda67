#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "base/file.h"
#include "io/toml.h"
#include "train/lora.h"
#include "train/option_table.h"
#include "train/train_defaults.h"

namespace heed {
namespace {

struct Reader {
  const Json& file;
  void operator()(const char* name, std::string& value) const {
    value = file.string_or(name, value);
  }
  void operator()(const char* name, std::filesystem::path& value) const {
    value = file.string_or(name, value.native());
  }
  void operator()(const char* name, std::vector<std::string>& value) const {
    if (const auto found = file.find(name)) {
      value = found->strings();
    }
  }
  void operator()(const char* name, int64_t& value) const {
    value = file.integer_or(name, value, 0, int64_t{1} << 40);
  }
  void operator()(const char* name, uint64_t& value) const {
    value = static_cast<uint64_t>(file.integer_or(name, static_cast<int64_t>(value), 0, INT64_MAX));
  }
  void operator()(const char* name, double& value) const {
    value = file.number_or(name, value, 0.0, 1e12);
  }
  void operator()(const char* name, bool& value) const { value = file.boolean_or(name, value); }
};

struct Checker {
  void operator()(const std::string& value, const TrainOption& option) const {
    const auto& known = option.choices;
    if (!value.empty() && !known.empty() &&
        std::find(known.begin(), known.end(), value) == known.end()) {
      fail(ErrorKind::usage, option.name, "'{}' is not one of {}", value, fmt::join(known, ", "));
    }
  }
  void operator()(int64_t value, const TrainOption& option) const {
    number(static_cast<double>(value), option);
  }
  void operator()(double value, const TrainOption& option) const { number(value, option); }
  void operator()(const auto&, const TrainOption&) const {}

 private:
  static void number(double value, const TrainOption& option) {
    if (!(value >= option.low && value <= option.high)) {
      fail(ErrorKind::usage, option.name, "{} is not in {} … {}", value, option.low, option.high);
    }
  }
};

}  // namespace

void check_train_options(const TrainOptions& o) {
  each_train_option(o, Checker());
  if (o.task == "lm" && o.context < 2) {
    fail(ErrorKind::usage, "context", "a language model needs at least 2 tokens, not {}",
         o.context);
  }
  check_best_by(o);
  check_lora(o);
  if (o.from.empty() && o.arch != "heed-rnn-seq2seq" && o.width % o.heads != 0) {
    fail(ErrorKind::usage, "width", "{} is not a multiple of heads, {}", o.width, o.heads);
  }
}

std::string dump_train_options(const TrainOptions& options) {
  TomlWriter writer;
  writer.comment("heed train: the options of this run");
  each_train_option(options, [&](const auto& value, const TrainOption& option) {
    if (!option.in_file) {
      return;
    }
    const char* name = option.name;
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::filesystem::path>) {
      writer.field(name, value.native());
    } else {
      writer.field(name, value);
    }
  });
  return writer.text();
}

void parse_train_options(const std::string& text, const std::string& name, TrainOptions& options,
                         bool ignore_preset) {
  const Json file = parse_toml(text, name);
  std::vector<std::string> known = {"preset"};
  each_train_option(options, [&](const auto&, const TrainOption& option) {
    if (option.in_file) {
      known.emplace_back(option.name);
    }
  });
  file.for_each([&](const std::string& key, const Json&) {
    check_data(std::find(known.begin(), known.end(), key) != known.end(), name,
               "'{}' is not an option of training; known are {}", key, fmt::join(known, ", "));
  });
  const std::string preset = file.string_or("preset", "");
  if (!preset.empty() && !ignore_preset) {
    if (options.task.empty()) {
      options.task = file.string_or("task", "");
    }
    apply_train_preset(preset, options);
  }
  each_train_option(options, [&](auto& value, const TrainOption& option) {
    if (option.in_file) {
      Reader{file}(option.name, value);
    }
  });
}

void read_train_options(const std::filesystem::path& path, TrainOptions& options,
                        bool ignore_preset) {
  constexpr uint64_t kMost = 1 << 20;
  parse_train_options(read_file(path, kMost), path.native(), options, ignore_preset);
}

}  // namespace heed
