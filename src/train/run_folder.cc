#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <sstream>

#include "base/check.h"
#include "base/checksum.h"
#include "base/file.h"
#include "base/folder_entries.h"
#include "base/language.h"
#include "base/output_file.h"
#include "base/print_message.h"
#include "base/utf8.h"
#include "heed/io.h"
#include "io/json_writer.h"
#include "ops/common.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

std::string checksum_of(const fs::path& file) {
  const MappedFile mapped(file);
  return fmt::format("{:08x}", crc32_of(mapped.text()));
}

uint64_t whole_number(std::string_view text, const std::string& where) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check_data(error == std::errc() && end == text.data() + text.size(), where,
             "'{}' is no whole number", text);
  return value;
}

struct Checkpoint {
  uint64_t step = 0;
  fs::path folder;
};

/// In the order of their steps.
std::vector<Checkpoint> checkpoints_of(const fs::path& folder) {
  constexpr std::string_view kBegin = "step-";
  constexpr size_t kMostDigits = 18;
  std::vector<Checkpoint> found;
  if (fs::is_directory(folder)) {
    for (const fs::path& entry : folder_entries(folder)) {
      const std::string name = entry.filename().string();
      const std::string digits = name.starts_with(kBegin) ? name.substr(kBegin.size()) : "";
      if (!digits.empty() && digits.size() <= kMostDigits &&
          digits.find_first_not_of("0123456789") == std::string::npos) {
        found.push_back({whole_number(digits, name), entry});
      }
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Checkpoint& a, const Checkpoint& b) { return a.step < b.step; });
  return found;
}

constexpr std::string_view kReplaced = "replaced.";  // before the name of a checkpoint

/// Removes a checkpoint such that a process killed meanwhile leaves no half of it under its name.
void discard(const fs::path& checkpoint) {
  const fs::path away = temporary_name(checkpoint.parent_path() / "tmp");
  fs::rename(checkpoint, away);
  fs::remove_all(away);
}

/// Gives a finished checkpoint its name. There is a whole one under that name at every moment where
/// the file system can exchange two names; elsewhere the old one waits under another name, from
/// which restore_replaced() brings it back.
void put_in_place(const fs::path& finished, const fs::path& name) {
  if (!fs::exists(name)) {
    fs::rename(finished, name);
    return;
  }
  if (renameat2(AT_FDCWD, finished.c_str(), AT_FDCWD, name.c_str(), RENAME_EXCHANGE) == 0) {
    return;  // `finished` is the old one now, which its owner removes
  }
  const fs::path aside = name.parent_path() / (std::string(kReplaced) + name.filename().native());
  fs::remove_all(aside);
  fs::rename(name, aside);
  fs::rename(finished, name);
  sync_folder(name.parent_path());
  discard(aside);
}

void restore_replaced(const fs::path& folder) {
  for (const fs::path& entry : folder_entries(folder)) {
    const std::string name = entry.filename().string();
    if (name.starts_with(kReplaced)) {
      const fs::path original = folder / name.substr(kReplaced.size());
      if (fs::exists(original)) {
        discard(entry);
      } else {
        fs::rename(entry, original);
      }
      return;  // there is never more than one
    }
  }
}

/// Removes what a killed process was writing; the lock says that nobody writes now.
void remove_unfinished(const fs::path& folder) {
  for (const fs::path& entry : folder_entries(folder)) {
    if (entry.filename().native().starts_with("tmp.")) {
      fs::remove_all(entry);
    }
  }
}

void write_state(JsonWriter& json, const RunState& state) {
  json.field("step", state.step).field("loss", state.loss).field("best", state.best);
  json.field("loss_scale", state.loss_scale.scale).field("good_steps", state.loss_scale.good);
  json.field("best_score", state.best_score).field("best_step", state.best_step);
  json.field("stale", state.stale);
  json.field("random_seed", std::to_string(state.random.seed));
  json.field("random_stream", std::to_string(state.random.next_stream));
  json.key("loader").begin_object();
  json.field("step", state.loader.step).field("seed", std::to_string(state.loader.seed));
  json.field("batch", state.loader.batch);
  json.field("fingerprint", std::to_string(state.loader.fingerprint)).end_object();
  if (state.ranks != 1) {  // a run on one machine has none
    json.field("ranks", state.ranks);
  }
  json.field("options", state.options);
}

constexpr const char* kOwnChecksum = "state";
constexpr const char* kTensorFiles[] = {"model.safetensors", "optimizer.safetensors",
                                        "ema.safetensors"};

/// Of what state.json says, however it is laid out.
std::string own_checksum(const RunState& state) {
  return fmt::format("{:08x}", crc32_of(state_to_text(state)));
}

std::string state_json(const RunState& state, const fs::path& folder) {
  JsonWriter json(2);
  json.begin_object();
  write_state(json, state);
  json.key("checksums").begin_object();
  json.field(kOwnChecksum, own_checksum(state));
  for (const char* name : kTensorFiles) {
    if (fs::exists(folder / name)) {
      json.field(name, checksum_of(folder / name));
    }
  }
  json.end_object().end_object();
  return json.text();
}

RunState parse_state(const Json& json) {
  auto whole = [](const Json& object, const char* key) {
    return whole_number(object.string(key), fmt::format("{}: {}", object.file(), key));
  };
  RunState state;
  state.step = json.integer("step", 0, INT64_MAX);
  state.loss = json.number_or("loss", 0.0, -1e300, 1e300);
  state.best = json.number("best", 0.0, 1e300);
  state.loss_scale = {json.number_or("loss_scale", 1.0, 1.0, LossScale::kLargest),
                      json.integer_or("good_steps", 0, 0, LossScale::kGrowAfter)};
  state.best_score = json.number_or("best_score", -state.best, -1e300, 1e300);
  state.best_step = json.integer_or("best_step", state.best > 0.0 ? state.step : 0, 0, INT64_MAX);
  state.stale = json.integer_or("stale", 0, 0, INT64_MAX);
  state.random = {whole(json, "random_seed"), whole(json, "random_stream")};
  const Json loader = json.at("loader");
  state.loader = {loader.integer("step", 0, INT64_MAX), whole(loader, "seed"),
                  loader.integer("batch", 0, INT64_MAX), whole(loader, "fingerprint")};
  state.ranks = json.integer_or("ranks", 1, 1, INT32_MAX);
  state.options = json.string("options");
  return state;
}

RunState read_state(const fs::path& folder) {
  const Json json = Json::read(folder / "state.json");
  RunState state = parse_state(json);
  for (const char* name : kTensorFiles) {
    if (fs::exists(folder / name)) {
      json.at("checksums").at(name);  // what has none could be anything
    }
  }
  json.at("checksums").at(kOwnChecksum);
  json.at("checksums").for_each([&](const std::string& name, const Json& sum) {
    const bool own = name == kOwnChecksum;
    check_data(own || std::find(std::begin(kTensorFiles), std::end(kTensorFiles), name) !=
                          std::end(kTensorFiles),
               json.file(), "checksums: {} is not a file of a checkpoint", quote(name));
    const fs::path file = folder / (own ? "state.json" : name);
    check_data((own ? own_checksum(state) : checksum_of(file)) == sum.string(), file.native(),
               "does not match its checksum");
  });
  return state;
}

/// A finite gradient may still take the weights to infinity: such weights are never kept.
void check_finite(const Parameter& parameter, int64_t step) {
  check(all_finite(parameter.tensor.detach()), "train",
        "'{}' is not finite after step {}, which was not saved; try a lower learning rate",
        parameter.name, step);
}

/// Removes a folder that could not be finished: a full disk has no room for halves.
class Unfinished {
 public:
  explicit Unfinished(const fs::path& folder) : folder_(folder) {}
  ~Unfinished() {
    std::error_code ignored;  // also where it bears its final name by now
    fs::remove_all(folder_, ignored);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

 private:
  fs::path folder_;
};

void warn_of_broken(const Error& error, bool last) {
  const std::string what = translate_message(error.what());
  print_message(last ? tell("heed: warning: {}", what)
                     : tell("heed: warning: {}; the checkpoint before it is used", what));
}

}  // namespace

std::string state_to_text(const RunState& state) {
  JsonWriter json;
  json.begin_object();
  write_state(json, state);
  return json.end_object().take();
}

RunState state_from_text(const std::string& text) {
  return parse_state(Json::parse(text, "state"));
}

RunFolder::RunFolder(const fs::path& path, bool resume, bool writes)
    : path_(path), writes_(writes) {
  if (!writes) {
    return;
  }
  // A start that was refused leaves an empty folder, which is no run.
  const bool used =
      fs::exists(path / "metrics.jsonl") || !checkpoints_of(path / "checkpoints").empty();
  if (used && !resume) {
    fail(ErrorKind::usage, path.native(),
         "holds a run already; resume it, or write to another folder");
  }
  make_folder(path / "checkpoints");
  lock_ = open((path / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) {
    fail(ErrorKind::runtime, path.native(), "cannot be written; the run would be lost");
  }
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    close(lock_);
    fail(ErrorKind::runtime, path.native(), "another process trains in this folder");
  }
  restore_replaced(path / "checkpoints");
  remove_unfinished(path / "checkpoints");
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) {
    close(lock_);
  }
}

void RunFolder::add_line(const char* name, const std::string& json) const {
  if (!writes_) {
    return;
  }
  std::FILE* file = std::fopen((path_ / name).c_str(), "a");
  const std::string line = json + "\n";
  const bool written =
      file != nullptr && std::fwrite(line.data(), 1, line.size(), file) == line.size();
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (!written || !closed) {
    fail(ErrorKind::runtime, (path_ / name).native(), "cannot be written");
  }
}

void RunFolder::cut_lines(const char* name, int64_t step) const {
  const fs::path file = path_ / name;
  if (!writes_ || !fs::exists(file)) {
    return;
  }
  std::istringstream lines(read_file(file));
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    // A line that a full disk or a power cut broke is dropped, too.
    try {
      const Json entry = Json::parse(line, file.native());
      if (entry.integer("step", 0, INT64_MAX) <= step && !entry.boolean_or("final", false)) {
        kept += line + "\n";
      }
    } catch (const Error&) {
    }
  }
  write_file_atomically(file, kept);
}

void RunFolder::save(const Model& model, const TensorMap& moments, const Ema& ema,
                     const RunState& state, int64_t keep) const {
  if (!writes_) {
    return;
  }
  const fs::path folder = path_ / "checkpoints";
  const fs::path temporary = temporary_name(folder / "tmp");
  const fs::path final_name = folder / fmt::format("step-{:06}", state.step);
  const Unfinished unfinished(temporary);
  make_folder(temporary);
  TensorMap weights;
  for (const Parameter& parameter : model.trainable_parameters()) {
    check_finite(parameter, state.step);
    weights.emplace(parameter.name, parameter.tensor.detach());
  }
  save_safetensors(temporary / "model.safetensors", weights);
  save_safetensors(temporary / "optimizer.safetensors", moments);
  if (ema.on()) {
    save_safetensors(temporary / "ema.safetensors", ema.state());
  }
  write_file_atomically(temporary / "state.json", state_json(state, temporary));
  sync_folder(temporary);
  put_in_place(temporary, final_name);
  sync_folder(folder);
  // Later ones are those that could not be read when the run went on from an earlier one: they
  // must not count among the last.
  std::vector<Checkpoint> all = checkpoints_of(folder);
  while (!all.empty() && std::cmp_greater(all.back().step, state.step)) {
    discard(all.back().folder);
    all.pop_back();
  }
  for (size_t i = 0; i + static_cast<size_t>(std::max<int64_t>(keep, 1)) < all.size(); ++i) {
    discard(all[i].folder);
  }
}

std::optional<RunState> RunFolder::restore(const Model& model,
                                           const std::function<void(const RunState&)>& accept,
                                           const std::function<void(const TensorMap&)>& moments,
                                           Ema& ema) const {
  const std::vector<Checkpoint> all = checkpoints_of(path_ / "checkpoints");
  for (auto checkpoint = all.rbegin(); checkpoint != all.rend(); ++checkpoint) {
    const fs::path& folder = checkpoint->folder;
    RunState state;
    try {
      state = read_state(folder);
    } catch (const Error& error) {
      warn_of_broken(error, checkpoint + 1 == all.rend());
      continue;
    }
    // Another run's options are no damage: its weights may have other shapes, and going back, or
    // beginning again, would not help.
    accept(state);
    try {
      const TensorMap weights = load_safetensors(folder / "model.safetensors");
      for (const Parameter& parameter : model.trainable_parameters()) {
        const auto found = weights.find(parameter.name);
        check_data(found != weights.end(), folder.native(), "lacks '{}'", parameter.name);
        Tensor tensor = parameter.tensor;
        tensor.copy_from(found->second);
      }
      moments(load_safetensors(folder / "optimizer.safetensors"));
      if (ema.on()) {
        ema.load_state(load_safetensors(folder / "ema.safetensors"));
      }
      return state;
    } catch (const Error& error) {
      warn_of_broken(error, checkpoint + 1 == all.rend());
    }
  }
  check_data(all.empty(), path_.native(),
             "none of its {} checkpoints can be used; train once more into another folder "
             "(fine-tuning {} begins with the best weights so far)",
             all.size(), (path_ / "model").native());
  return std::nullopt;
}

}  // namespace heed
