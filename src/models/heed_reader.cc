#include <cmath>
#include <limits>

#include "base/check.h"
#include "models/layer_stack.h"
#include "models/registry.h"
#include "models/task_heads.h"

namespace heed {
namespace {

/// heed-reader: the simple encoder, read out from one position, the query (its token_type_ids is
/// 1). `readout` "attention": one attention from the query over the other words; its weights are
/// the answer, and the loss is -log of the weight on the gold position or positions. "classifier":
/// a plain classifier over the query's row, which need not look where it answers.
class Reader final : public SimpleEncoderModel {
 public:
  Reader(const Json& config, const Scope& root)
      : SimpleEncoderModel(config, root, "heed-reader", {.token_types = true}, false,
                           simple_sizes(config)) {
    const std::string readout = config.string_or("readout", "attention");
    check_data(readout == "attention" || readout == "classifier", config.file(),
               "readout '{}' is not known; use attention or classifier", readout);
    points_ = readout == "attention";
    if (points_) {
      const Linear::Options options{.bias = false, .init = glorot(hidden_size_, hidden_size_)};
      query_ = Linear(root / "readout" / "query", hidden_size_, hidden_size_, options);
      key_ = Linear(root / "readout" / "key", hidden_size_, hidden_size_, options);
    } else {
      const int64_t labels = label_count(config);
      classifier_ =
          make_classifier(config, root, hidden_size_, labels, glorot(hidden_size_, labels));
    }
  }

  ModelOutput do_forward(const ModelInput& input) const override {
    const TokenRows tokens = read(input, input.skip_padding);
    const std::vector<int64_t> queries = query_places(input, tokens);
    const Tensor rows = tokens.to_batch(run(tokens, input));
    const int64_t length = tokens.length;
    Tensor asked = Tensor::empty({tokens.batch}, DType::i64);
    for (int64_t b = 0; b < tokens.batch; ++b) {
      asked.data<int64_t>()[b] = b * length + queries[static_cast<size_t>(b)];
    }
    const Tensor query =
        index_rows(reshape(rows, {tokens.batch * length, hidden_size_}), asked);  // [B, width]
    if (!points_) {
      return sequence_results(tokens.pass(input).dropout(query, sizes_.dropout), classifier_,
                              input);
    }
    ModelOutput output;
    const Tensor hidden = candidates(input, tokens, queries);
    output.logits = observe("hook_logits", scores(query, rows, hidden));
    if (input.labels.defined()) {
      output.loss = pointing_loss(output.logits, input.labels);
    }
    return output;
  }

 private:
  /// Where each sentence's query stands.
  std::vector<int64_t> query_places(const ModelInput& input, const TokenRows& tokens) const {
    check(input.token_type_ids.defined() &&
              input.token_type_ids.shape() == Shape({tokens.batch, tokens.length}),
          "forward", "heed-reader needs token_type_ids of the shape of input_ids, 1 at the query");
    const std::vector<int64_t> types = input.token_type_ids.to_vector<int64_t>();
    std::vector<int64_t> places(static_cast<size_t>(tokens.batch), -1);
    for (int64_t i = 0; i < tokens.batch * tokens.length; ++i) {
      int64_t& place = places[static_cast<size_t>(i / tokens.length)];
      if (types[static_cast<size_t>(i)] == 1) {
        check(place < 0, "forward", "token_type_ids marks two queries in sequence {}",
              i / tokens.length);
        place = i % tokens.length;
      }
    }
    for (size_t b = 0; b < places.size(); ++b) {
      check(places[b] >= 0, "forward", "token_type_ids marks no query in sequence {}", b);
    }
    return places;
  }

  /// u8 [B, T]: 1 where the query may look; padding and the query itself are left out.
  Tensor candidates(const ModelInput& input, const TokenRows& tokens,
                    const std::vector<int64_t>& queries) const {
    const Tensor real =
        padding_mask(input.attention_mask, tokens.batch, tokens.length, "attention_mask");
    Tensor keep = Tensor::full({tokens.batch, tokens.length}, 1, DType::u8);
    for (int64_t b = 0; b < tokens.batch; ++b) {
      for (int64_t t = 0; t < tokens.length; ++t) {
        const int64_t place = b * tokens.length + t;
        const bool padded = real.defined() && real.data<uint8_t>()[place] == 0;
        keep.data<uint8_t>()[place] = !padded && t != queries[static_cast<size_t>(b)];
      }
    }
    return keep;
  }

  /// Scaled scores [B, T] of the query against every position, -infinity where it may not look.
  Tensor scores(const Tensor& query, const Tensor& rows, const Tensor& keep) const {
    const int64_t batch = rows.size(0);
    const int64_t length = rows.size(1);
    const int64_t width = hidden_size_;
    const HookScope readout("readout");
    const HookScope hook_scope("attn");
    const Tensor q = observe("hook_q", reshape(query_(query), {batch, 1, 1, width}));
    const Tensor k = observe("hook_k", reshape(key_(rows), {batch, 1, length, width}));
    if (Observer::current() != nullptr) {
      // The same weights through attention(), where recorders see them.
      const NoGrad no_grad;
      AttentionOptions options;
      options.key_padding = keep;
      attention(q, k, reshape(rows, {batch, 1, length, width}), options);
    }
    const Tensor products = mul(reshape(matmul(q, transpose(k)), {batch, length}),
                                1.0 / std::sqrt(static_cast<double>(width)));
    Tensor masked = Tensor::empty(keep.shape(), DType::u8);
    for (int64_t i = 0; i < keep.numel(); ++i) {
      masked.data<uint8_t>()[i] = keep.data<uint8_t>()[i] == 0;
    }
    return masked_fill(products, masked, -std::numeric_limits<double>::infinity());
  }

  /// labels [B]: the gold position; or [B, T]: 1 at each gold position, whose weights add up.
  static Tensor pointing_loss(const Tensor& logits, const Tensor& labels) {
    const int64_t batch = logits.size(0);
    if (labels.rank() == 1) {
      return cross_entropy(logits, labels.to(DType::i64));
    }
    check(labels.shape() == logits.shape(), "loss",
          "labels {} are neither places [{}] nor marks {}", labels.shape(), batch, logits.shape());
    const Tensor mass = sum(mul(softmax(logits), labels.to(DType::f32)), 1);
    constexpr double kSmallest =
        1e-30;  // a gold position without any weight: a large loss, not inf
    return mul(mean(log(add(mass, kSmallest))), -1.0);
  }

  bool points_ = true;
  Linear query_, key_, classifier_;
};

}  // namespace

ModelSpec heed_reader_spec() {
  ModelSpec spec;
  spec.model_type = "heed-reader";
  spec.kind = ModelKind::encoder;
  spec.points_at_tokens = true;
  spec.make = [](const Json& config, const Scope& scope) -> std::unique_ptr<Model> {
    return std::make_unique<Reader>(config, scope);
  };
  return spec;
}

}  // namespace heed
