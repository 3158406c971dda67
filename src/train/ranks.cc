#include "train/ranks.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/check.h"
#include "base/checksum.h"
#include "base/file.h"
#include "base/language.h"
#include "base/print_message.h"
#include "data/tokenize_ranks.h"
#include "dist/placement.h"
#include "heed/io.h"
#include "io/json_writer.h"

namespace heed {
namespace {

std::string program_fingerprint() {
  const MappedFile program(std::filesystem::canonical("/proc/self/exe"));
  return fmt::format("{:016x}", fingerprint_of(program.text()));
}

}  // namespace

void meet(Communicator& ranks, const TrainOptions& options) {
  if (ranks.size() == 1) {
    return;
  }
  check_same(ranks, "program", program_fingerprint());
  check_same(ranks, "option", dump_train_options(options));
  if (options.batch < ranks.size()) {
    fail(ErrorKind::usage, "batch", "{} examples per step leave nothing for some of {} ranks",
         options.batch, ranks.size());
  }
  const std::string warning = place_threads(ranks, static_cast<int>(options.threads));
  if (!warning.empty() && !options.quiet) {
    print_message(tell("heed: warning: {}", translate_message(warning)));
  }
}

Task make_task_together(Communicator& ranks, const TrainOptions& options) {
  const TokenizeTogether together(
      {ranks.rank(), ranks.size(), [&](std::string_view mine) { return ranks.gather(mine); }});
  return make_task(options);
}

void check_same_data(Communicator& ranks, const Task& task, const TrainOptions& options) {
  if (ranks.size() == 1) {
    return;
  }
  std::string text;
  const auto add = [&](const char* name, const Loader* loader) {
    if (loader != nullptr) {
      text += fmt::format("{} of {} examples, fingerprint {:016x}\n", name, loader->examples(),
                          loader->state().fingerprint);
    }
  };
  add("training set", task.train.get());
  add("validation set", task.validation.get());
  text +=
      fmt::format("model configuration {:016x}\n", fingerprint_of(task.model->config().dump(2)));
  check_same(ranks, "data set in " + options.data, text);
  uint64_t weights = 0;
  for (const Parameter& parameter : task.model->trainable_parameters()) {
    weights = fingerprint_of(parameter.tensor.raw(), static_cast<size_t>(parameter.tensor.bytes()),
                             weights);
  }
  check_same(ranks, "set of first weights", fmt::format("{:016x}", weights));
}

void broadcast_run(Communicator& ranks, const Model& model, RunState& state) {
  state = state_from_text(ranks.broadcast(state_to_text(state)));
  for (const Parameter& parameter : model.trainable_parameters()) {
    Tensor tensor = parameter.tensor;
    ranks.broadcast(tensor.raw(), static_cast<size_t>(tensor.bytes()));
    tensor.bump_version();
  }
}

void broadcast_tensors(Communicator& ranks, TensorMap& tensors) {
  JsonWriter list;
  list.begin_array();
  for (const auto& [name, tensor] : tensors) {
    list.begin_object().field("name", name).field("type", static_cast<int64_t>(tensor.dtype()));
    list.key("shape").begin_array();
    for (const int64_t dim : tensor.shape()) {
      list.value(dim);
    }
    list.end_array().end_object();
  }
  const Json described = Json::parse(ranks.broadcast(list.end_array().text()), "ranks");
  TensorMap received;
  for (size_t i = 0; i < described.size(); ++i) {
    const Json one = described[i];
    const std::string name = one.string("name");
    Tensor tensor;
    if (ranks.is_root()) {
      tensor = tensors.find(name)->second.contiguous();
    } else {
      Shape shape;
      const Json dims = one.at("shape");
      for (size_t axis = 0; axis < dims.size(); ++axis) {
        shape.push_back(dims[axis].integer(0, INT64_MAX));
      }
      tensor = Tensor::empty(shape, static_cast<DType>(one.integer("type", 0, 255)));
    }
    ranks.broadcast(tensor.raw(), static_cast<size_t>(tensor.bytes()));
    received.emplace(name, tensor);
  }
  tensors = std::move(received);
}

void abort_all(Communicator& ranks, const std::exception& error, int exit_code) {
  // What all ranks stumble over is said once, by rank 0.
  constexpr auto kLeadSpeaksFirst = std::chrono::milliseconds(500);
  if (!ranks.is_root()) {
    std::this_thread::sleep_for(kLeadSpeaksFirst);
  }
  print_message(
      tell("heed: {} (rank {}; all ranks end)", translate_message(error.what()), ranks.rank()));
  ranks.abort(exit_code);
  std::abort();  // GCC does not see that a virtual call never returns
}

}  // namespace heed
