#include "works.h"

#include <algorithm>

#include "alternate.h"
#include "base/check.h"
#include "base/file.h"
#include "heed/attention.h"
#include "heed/io.h"
#include "heed/models.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "heed/tensor.h"
#include "heed/text.h"
#include "heed/train.h"
#include "kernels/gemm.h"
#include "machine.h"
#include "pipeline_works.h"
#include "running.h"

namespace heed::bench {
namespace {

/// Three limits of the machine, each timed by itself: values are FMA operations, sgemm operations
/// and bytes read a second.
class Limits final : public PeerWork {
 public:
  Limits()
      : far_(Tensor::zeros({kFarBytes / 4})),
        a_(Tensor::zeros({kRows, kInner})),
        b_(Tensor::zeros({kColumns, kInner})),
        c_(Tensor::empty({kRows, kColumns})) {}

  double run() override {
    const double start = seconds_now();
    values_ = {best_rate([&] { return spin_all(); }), best_rate([&] { return product(); }),
               best_rate([&] { return read_all(far_); })};
    return seconds_now() - start;
  }
  std::vector<double> values() const override { return values_; }

 private:
  static constexpr int64_t kFarBytes = int64_t{512} << 20;
  static constexpr int64_t kRows = 1024, kColumns = 3072, kInner = 768;

  template <class Once>
  static double best_rate(const Once& once) {
    double best = 0;
    for (int i = 0; i < 7; ++i) {
      const double start = seconds_now();
      const double amount = once();
      best = std::max(best, amount / (seconds_now() - start));
    }
    return best;
  }
  double product() const {
    kernels::gemm({.m = kRows,
                   .n = kColumns,
                   .k = kInner,
                   .a = {a_.raw(), kernels::Element::f32, kInner, 1},
                   .b = {b_.raw(), kernels::Element::f32, 1, kInner},
                   .c = c_.raw(),
                   .c_stride = kColumns});
    return 2.0 * kRows * kColumns * kInner;
  }

  Tensor far_, a_, b_, c_;
  std::vector<double> values_;
};

/// Plain reading, in turn with works that are bound by it: how fast memory is changes by the
/// second. Value: the bytes of a run.
class Read final : public PeerWork {
 public:
  double run() override {
    const double start = seconds_now();
    bytes_ = read_all(far_);
    return seconds_now() - start;
  }
  std::vector<double> values() const override { return {bytes_}; }

 private:
  Tensor far_ = Tensor::zeros({int64_t{128} << 20});
  double bytes_ = 0;
};

/// The type that a work computes in: f32 unless the command names another.
DType type_of(const Json& command) { return dtype_from_name(command.string_or("dtype", "f32")); }

class Attention final : public PeerWork {
 public:
  explicit Attention(const Json& command)
      : inputs_(load_safetensors(command.string("inputs"))), both_(command.boolean("backward")) {
    options_.position = Causal{};
    for (auto& [name, tensor] : inputs_) {
      tensor = tensor.to(type_of(command));
    }
  }

  double run() override {
    const double start = seconds_now();
    if (!both_) {
      const NoGrad no_grad;
      results_ = {attention(inputs_["q"], inputs_["k"], inputs_["v"], options_)};
      return seconds_now() - start;
    }
    std::vector<Tensor> leaves;
    for (const char* name : {"q", "k", "v"}) {
      leaves.push_back(inputs_[name].detach().set_requires_grad(true));
    }
    const Tensor out = attention(leaves[0], leaves[1], leaves[2], options_);
    backward(out, inputs_["dout"]);
    results_ = {out.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
    return seconds_now() - start;
  }

  std::vector<double> values() const override {
    std::vector<double> values;
    for (const Tensor& result : results_) {
      add_sample(result.to(DType::f32).to_vector<float>(), values);
    }
    return values;
  }

 private:
  TensorMap inputs_;
  AttentionOptions options_;
  bool both_;
  std::vector<Tensor> results_;
};

ModelInput model_input(const std::string& file) {
  const TensorMap tensors = load_safetensors(file);
  ModelInput input;
  const std::pair<const char*, Tensor*> places[] = {
      {"input_ids", &input.input_ids},
      {"attention_mask", &input.attention_mask},
      {"global_attention_mask", &input.global_attention_mask},
      {"decoder_input_ids", &input.decoder_input_ids},
      {"pixel_values", &input.pixel_values},
      {"labels", &input.labels},
  };
  for (const auto& [name, place] : places) {
    if (const auto found = tensors.find(name); found != tensors.end()) {
      *place = found->second;
    }
  }
  return input;
}

/// Forward, backward and AdamW on the same batch again and again.
class Train final : public PeerWork {
 public:
  explicit Train(const Json& command)
      : model_(load_model(command.string("model"), {.trainable = true})),
        input_(model_input(command.string("inputs"))),
        optimizer_(named(*model_), {.lr = command.number("lr", 0, 1), .weight_decay = 0.01}),
        activations_(type_of(command)) {
    input_.training = true;
    input_.want_logits = false;
  }

  double run() override {
    const double start = seconds_now();
    const ActivationScope precision(activations_);
    const Tensor loss = model_->forward(input_).loss;
    backward(loss);
    optimizer_.step();
    optimizer_.zero_grad();
    losses_.push_back(loss.item());
    return seconds_now() - start;
  }
  std::vector<double> values() const override { return losses_; }

 private:
  static std::vector<NamedTensor> named(const Model& model) {
    std::vector<NamedTensor> result;
    for (const Parameter& parameter : model.parameters()) {
      result.emplace_back(parameter.name, parameter.tensor);
    }
    return result;
  }

  std::unique_ptr<Model> model_;
  ModelInput input_;
  Optimizer optimizer_;
  DType activations_;
  std::vector<double> losses_;
};

/// Hidden states of a batch; padding is not computed.
class Encode final : public PeerWork {
 public:
  explicit Encode(const Json& command) : input_(model_input(command.string("inputs"))) {
    set_activation_type(type_of(command));
    model_ = load_model(command.string("model"));
    input_.skip_padding = true;
  }

  double run() override {
    const NoGrad no_grad;
    const double start = seconds_now();
    states_ = model_->forward(input_).last_hidden_state;
    return seconds_now() - start;
  }

  std::vector<double> values() const override {
    const std::vector<double> real = input_.attention_mask.to_doubles();
    const std::vector<float> states = states_.to_vector<float>();
    const std::span<const float> all = states;
    const auto width = static_cast<size_t>(model_->hidden_size());
    std::vector<float> kept;
    for (size_t place = 0; place < real.size(); ++place) {
      if (real[place] != 0) {
        const auto row = all.subspan(place * width, width);
        kept.insert(kept.end(), row.begin(), row.end());
      }
    }
    std::vector<double> values;
    add_sample(kept, values);
    return values;
  }

 private:
  std::unique_ptr<Model> model_;
  ModelInput input_;
  Tensor states_;
};

/// Ids of a text on one thread; `cold`: with a tokenizer that has seen nothing yet.
class Tokenize final : public PeerWork {
 public:
  explicit Tokenize(const Json& command)
      : file_(command.string("tokenizer")),
        text_(read_file(command.string("text"))),
        cold_(command.boolean("cold")),
        tokenizer_(Tokenizer::load(file_)) {
    set_thread_count(1);
  }

  double run() override {
    if (cold_) {
      tokenizer_ = Tokenizer::load(file_);
    }
    ids_.clear();
    const double start = seconds_now();
    tokenizer_.append_ids(text_, ids_);
    return seconds_now() - start;
  }
  std::vector<double> values() const override { return {ids_.begin(), ids_.end()}; }

 private:
  std::string file_, text_;
  bool cold_;
  Tokenizer tokenizer_;
  std::vector<TokenId> ids_;
};

}  // namespace

void add_sample(std::span<const float> all, std::vector<double>& values) {
  const size_t count = std::min<size_t>(all.size(), 512);
  for (size_t i = 0; i < count; ++i) {
    values.push_back(all[i * all.size() / count]);
  }
}

std::unique_ptr<PeerWork> make_work(const Json& command) {
  const std::string kind = command.string("kind");
  if (const auto threads = command.find("threads")) {
    set_thread_count(static_cast<int>(threads->integer(1, 1024)));
  }
  if (kind == "limits") {
    return std::make_unique<Limits>();
  }
  if (kind == "read") {
    return std::make_unique<Read>();
  }
  if (kind == "attention") {
    return std::make_unique<Attention>(command);
  }
  if (kind == "train") {
    return std::make_unique<Train>(command);
  }
  if (kind == "encode") {
    return std::make_unique<Encode>(command);
  }
  if (kind == "tokenize") {
    return std::make_unique<Tokenize>(command);
  }
  if (kind == "embed" || kind == "transcribe") {
    return make_pipeline_work(command);
  }
  return make_running_work(command);
}

}  // namespace heed::bench
