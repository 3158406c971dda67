#include "train/resume_options.h"

#include <algorithm>
#include <sstream>

#include "base/check.h"
#include "train/option_table.h"

namespace heed {

std::string options_that_must_match(TrainOptions options) {
  const bool tuned = !options.from.empty();
  each_train_option(options, [&](auto& value, const TrainOption& option) {
    if (option.resume == OnResume::may_change || (option.resume == OnResume::of_model && tuned)) {
      value = std::remove_reference_t<decltype(value)>();
    }
  });
  return dump_train_options(options);
}

void check_same_run(const std::string& before, const TrainOptions& now) {
  TrainOptions options;
  parse_train_options(before, "state.json", options);
  if (options.best_by.empty()) {
    options.best_by = now.best_by;  // a run of an earlier version did not say
  }
  std::istringstream old_lines(options_that_must_match(options));
  std::istringstream new_lines(options_that_must_match(now));
  std::string changes;
  for (std::string was, is; std::getline(old_lines, was) && std::getline(new_lines, is);) {
    if (was != is) {  // both are "name = value" of the same name
      changes += fmt::format("{}{} → {}", changes.empty() ? "" : ", ", was,
                             is.substr(std::min(is.find(" = ") + 3, is.size())));
    }
  }
  check_data(changes.empty(), now.out.native(),
             "the run was started with other options: {}; resume with the same ones, or start "
             "another run from {}",
             changes, (now.out / "model").native());
}

}  // namespace heed
