#include "heed/command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>

namespace heed::app {
namespace {
std::vector<Command>& registry() {
  static std::vector<Command> all;
  return all;
}
}  // namespace

bool Common::colors(int descriptor) const {
  if (color != "auto") {
    return color == "always";
  }
  const char* no_color = std::getenv("NO_COLOR");
  return isatty(descriptor) != 0 && (no_color == nullptr || *no_color == '\0');
}

Registration::Registration(Command command) {
  auto& all = registry();
  const auto place = std::lower_bound(
      all.begin(), all.end(), command.name,
      [](const Command& existing, const std::string& name) { return existing.name < name; });
  all.insert(place, std::move(command));
}

const std::vector<Command>& commands() { return registry(); }

namespace {
bool runs_a_model(const Command& command) {
  static const std::set<std::string_view> kRunning = {
      "ask",     "caption", "chat",    "classify", "embed",      "eval",
      "explore", "fill",    "forward", "generate", "index",      "inspect",
      "predict", "rerank",  "search",  "serve",    "transcribe", "translate"};
  return kRunning.contains(command.name);
}
}  // namespace

void add_common(const Command& command, OptionTable& options, Common& common) {
  options.group("Common");
  if (runs_a_model(command)) {
    options
        .add("--dtype", &common.dtype,
             "Type to compute in: bf16 halves the memory of f32 weights, and the time where the "
             "processor multiplies bf16")
        .choices({"f32", "bf16"});
  }
  options.add("--threads", &common.threads, "Threads to use (default: one per core)")
      .range(1, 1024);
  options.add("--json", &common.json, "Print JSON for programs");
  options.add("--quiet", &common.quiet, "No progress on stderr");
  options.add("--color", &common.color, "Colours").choices({"auto", "always", "never"});
  if (options.find("--lang") == nullptr) {
    options.add("--lang", &common.language, "Language of what is printed (default: by the locale)")
        .choices({"en", "ko"});
  }
}

void for_each_command(const std::function<void(const Command&, const OptionTable&)>& visit) {
  for (const Command& command : commands()) {
    Common common;
    OptionTable options;
    const std::function<int()> runner = command.setup(options, common);  // holds the values
    add_common(command, options, common);
    visit(command, options);
  }
}

}  // namespace heed::app
