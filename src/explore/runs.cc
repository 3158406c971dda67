#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "base/check.h"
#include "base/file_descriptor.h"
#include "base/folder_entries.h"
#include "explore/answers.h"
#include "heed/io.h"
#include "heed/ops.h"
#include "io/toml.h"

namespace heed::explore {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostRows = 5000;

/// Whether a process trains in the folder: it holds the lock then.
bool is_live(const fs::path& run) {
  const FileDescriptor lock(open((run / "lock").c_str(), O_RDONLY | O_CLOEXEC));
  return lock.is_open() && flock(lock.get(), LOCK_SH | LOCK_NB) != 0;
}

/// The lines of a .jsonl file that are whole objects; one that is being written is not.
std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("{") && line.ends_with("}")) {
      lines.push_back(std::move(line));
    }
  }
  return lines;
}

int64_t step_of(const std::string& line) {
  try {
    return Json::parse(line, "metrics.jsonl").integer("step", 0, INT64_MAX);
  } catch (const Error&) {
    return -1;
  }
}

bool is_evaluation(const std::string& line) {
  return line.find("\"val_") != std::string::npos || line.find("\"final\"") != std::string::npos;
}

void write_lines(JsonWriter& json, const char* name, const std::vector<std::string>& lines) {
  json.key(name).begin_array();
  for (const std::string& line : lines) {
    json.raw(line);
  }
  json.end_array();
}

/// At most kMostRows lines, thinned evenly; evaluations are never left out.
std::vector<std::string> thinned(std::vector<std::string> lines) {
  if (lines.size() <= kMostRows) {
    return lines;
  }
  std::vector<std::string> kept;
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool grid = i * kMostRows / lines.size() != (i + 1) * kMostRows / lines.size();
    if (grid || is_evaluation(lines[i])) {
      kept.push_back(std::move(lines[i]));
    }
  }
  return kept;
}

struct Snapshot {
  int64_t step = 0;
  fs::path file;
};

std::vector<Snapshot> snapshots_of(const fs::path& run) {
  std::vector<Snapshot> found;
  std::error_code ignored;
  for (const fs::path& entry : folder_entries(run / "snapshots", ignored)) {
    const std::string name = entry.filename().string();
    if (name.starts_with("step-") && name.ends_with(".safetensors")) {
      found.push_back({std::strtoll(name.c_str() + 5, nullptr, 10), entry});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Snapshot& a, const Snapshot& b) { return a.step < b.step; });
  return found;
}

/// The weights of the checkpoints that are there, in the order of their steps.
std::vector<Snapshot> checkpoints_of(const fs::path& run) {
  std::vector<Snapshot> found;
  std::error_code ignored;
  for (const fs::path& entry : folder_entries(run / "checkpoints", ignored)) {
    const std::string name = entry.filename().string();
    const fs::path weights = entry / "model.safetensors";
    if (name.starts_with("step-") && fs::exists(weights, ignored) &&
        fs::exists(run / "model" / "config.json", ignored)) {
      found.push_back({std::strtoll(name.c_str() + 5, nullptr, 10), weights});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Snapshot& a, const Snapshot& b) { return a.step < b.step; });
  return found;
}

std::string checkpoint_id(const fs::path& run, int64_t step) {
  return fmt::format("{}@{}", run_name(run), step);
}

/// "probe.0.encoder_attentions.3" as its kind and layer.
bool parse_probe(const std::string& name, int64_t example, std::string& kind, int64_t& layer) {
  const std::string prefix = fmt::format("probe.{}.", example);
  const size_t dot = name.rfind('.');
  if (!name.starts_with(prefix) || dot == std::string::npos || dot < prefix.size()) {
    return false;
  }
  const std::string middle = name.substr(prefix.size(), dot - prefix.size());
  kind = middle == "attentions" ? "self" : middle.substr(0, middle.find('_'));
  layer = std::strtoll(name.c_str() + dot + 1, nullptr, 10);
  return true;
}

void write_steps(JsonWriter& json, const std::vector<Snapshot>& all) {
  json.key("steps").begin_array();
  for (const Snapshot& each : all) {
    json.value(each.step);
  }
  json.end_array();
}

std::string tracked_list(const fs::path& run) {
  const std::vector<Snapshot> all = snapshots_of(run);
  JsonWriter json;
  json.begin_object();
  write_steps(json, all);
  json.key("examples").begin_array();
  if (!all.empty()) {
    const TensorMap tensors = load_safetensors(all.back().file);
    const Metadata metadata = safetensors_metadata(all.back().file);
    const auto probes = metadata.find("probes");
    const Json examples =
        Json::parse(probes == metadata.end() ? "[]" : probes->second, all.back().file.native());
    for (size_t i = 0; i < examples.size(); ++i) {
      std::map<std::string, std::pair<int64_t, int64_t>> kinds;  // layers, heads
      for (const auto& [name, tensor] : tensors) {
        std::string kind;
        int64_t layer = 0;
        if (parse_probe(name, static_cast<int64_t>(i), kind, layer)) {
          kinds[kind] = {std::max(kinds[kind].first, layer + 1), tensor.size(0)};
        }
      }
      json.begin_object();
      for (const char* side : {"tokens", "target_tokens"}) {
        if (examples[i].has(side)) {
          json.field(side, examples[i].at(side).strings());
        }
      }
      json.key("attentions").begin_array();
      for (const auto& [kind, sizes] : kinds) {
        json.begin_object().field("kind", kind).field("layers", sizes.first);
        json.field("heads", sizes.second).end_object();
      }
      json.end_array().end_object();
    }
  }
  return json.end_array().end_object().take();
}

std::string tracked_maps(const fs::path& run, const Json& body) {
  const Fields fields(body, {"example", "kind", "layer"});
  const int64_t example = fields.integer("example", 0, INT32_MAX);
  const std::string kind = fields.text("kind");
  const int64_t layer = fields.integer("layer", 0, INT32_MAX);
  const std::string name =
      fmt::format("probe.{}.{}attentions.{}", example, kind == "self" ? "" : kind + "_", layer);
  std::vector<Snapshot> all = snapshots_of(run);
  std::vector<double> values, entropy;
  Shape shape;
  std::erase_if(all, [&](const Snapshot& each) {
    const TensorMap tensors = load_safetensors(each.file);
    const auto found = tensors.find(name);
    if (found == tensors.end() || (shape.rank() > 0 && found->second.shape() != shape)) {
      return true;
    }
    shape = found->second.shape();
    const std::vector<double> weights = found->second.to_doubles();
    values.insert(values.end(), weights.begin(), weights.end());
    const auto cells = static_cast<size_t>(shape[1] * shape[2]);
    for (size_t head = 0; head < static_cast<size_t>(shape[0]); ++head) {
      double bits = 0;
      for (size_t i = head * cells; i < (head + 1) * cells; ++i) {
        bits -= weights[i] > 0 ? weights[i] * std::log2(weights[i]) : 0.0;
      }
      entropy.push_back(bits / static_cast<double>(shape[1]));
    }
    return false;
  });
  if (all.empty()) {
    throw Failure(404, "not_found", fmt::format("no snapshot has {}", name), "layer");
  }
  const auto steps = static_cast<int64_t>(all.size());
  JsonWriter json;
  json.begin_object();
  write_steps(json, all);
  json.field("rows", shape[1]).field("columns", shape[2]).key("values");
  write_matrix(json, values, {steps, shape[0], shape[1], shape[2]}, DType::f32);
  json.key("entropy");
  write_matrix(json, entropy, {steps, shape[0]}, DType::f32);
  return json.end_object().take();
}

}  // namespace

std::string run_name(const fs::path& run) {
  return (run.filename().empty() ? run.parent_path() : run).filename().string();
}

std::string describe_run(const fs::path& run, const std::vector<std::string>& models) {
  const std::string name = run_name(run);
  std::string task;
  std::optional<int64_t> total;
  try {
    const Json config = read_toml(run / "config.toml");
    task = config.string_or("task", "");
    if (config.has("steps")) {
      total = config.integer("steps", 0, INT64_MAX);
    }
  } catch (const Error&) {
  }
  const std::vector<std::string> lines = lines_of(run / "metrics.jsonl");
  JsonWriter json;
  json.begin_object().field("id", name).field("name", name).field("task", task);
  json.field("live", is_live(run));
  json.field("steps", lines.empty() ? int64_t{0} : std::max<int64_t>(step_of(lines.back()), 0));
  json.key("total_steps");
  if (total) {
    json.value(*total);
  } else {
    json.null();
  }
  json.key("model");
  if (std::find(models.begin(), models.end(), name) != models.end()) {
    json.value(name);
  } else {
    json.null();
  }
  return json.end_object().take();
}

std::optional<ExplorerModel> open_checkpoint(const std::vector<fs::path>& runs,
                                             const std::string& id) {
  for (const fs::path& run : runs) {
    for (const Snapshot& each : checkpoints_of(run)) {
      if (id != checkpoint_id(run, each.step)) {
        continue;
      }
      // Configuration and tokenizer are those of the run's model; the weights are its own.
      ExplorerModel made = open_explorer_model(run / "model", id);
      std::unique_ptr<Model> model = load_model(run / "model", {.trainable = true});
      const TensorMap weights = load_safetensors(each.file);
      for (const Parameter& parameter : model->trainable_parameters()) {
        const auto found = weights.find(parameter.name);
        check_data(found != weights.end(), each.file.native(), "lacks '{}'", parameter.name);
        Tensor tensor = parameter.tensor;
        tensor.set_requires_grad(false);
        tensor.copy_from(found->second);
      }
      made.model = std::move(model);
      return made;
    }
  }
  return std::nullopt;
}

std::string answer_run(const fs::path& run, const std::vector<std::string>& models,
                       std::string_view what, std::string_view query, const Json* body) {
  JsonWriter json;
  json.begin_object();
  if (what == "metrics") {
    constexpr std::string_view kAfter = "after=";
    const size_t at = query.find(kAfter);
    const int64_t after =
        at == std::string_view::npos
            ? -1
            : std::strtoll(std::string(query.substr(at + kAfter.size())).c_str(), nullptr, 10);
    std::vector<std::string> lines = lines_of(run / "metrics.jsonl");
    std::erase_if(lines, [after](const std::string& line) { return step_of(line) <= after; });
    json.key("run").raw(describe_run(run, models));
    write_lines(json, "rows", thinned(std::move(lines)));
  } else if (what == "samples") {
    write_lines(json, "samples", lines_of(run / "samples.jsonl"));
  } else if (what == "tracked") {
    return body == nullptr ? tracked_list(run) : tracked_maps(run, *body);
  } else if (what == "checkpoints") {
    json.key("checkpoints").begin_array();
    for (const Snapshot& each : checkpoints_of(run)) {
      json.begin_object().field("step", each.step);
      json.field("model", checkpoint_id(run, each.step)).end_object();
    }
    json.end_array();
  } else {
    throw Failure(404, "not_found", fmt::format("a run has no {}", what));
  }
  return json.end_object().take();
}

}  // namespace heed::explore
