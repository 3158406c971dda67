#include "heed/command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

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

}  // namespace heed::app
