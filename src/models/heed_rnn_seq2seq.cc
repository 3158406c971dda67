#include <cmath>

#include "base/check.h"
#include "models/encoder_decoder.h"
#include "models/fresh_config.h"
#include "models/registry.h"
#include "models/rnn_attention.h"

namespace heed {
namespace {

/// An LSTM cell with PyTorch's names.
class LstmCell {
 public:
  LstmCell() = default;
  LstmCell(const Scope& scope, int64_t in, int64_t hidden) {
    const Init init = Init::fan_in(hidden);
    weight_ih_ = scope.parameter("weight_ih", {4 * hidden, in}, init);
    weight_hh_ = scope.parameter("weight_hh", {4 * hidden, hidden}, init);
    bias_ih_ = scope.parameter("bias_ih", {4 * hidden}, init);
    bias_hh_ = scope.parameter("bias_hh", {4 * hidden}, init);
  }
  LstmState operator()(const Tensor& x, const LstmState& state) const {
    return lstm_cell(x, state, weight_ih_, weight_hh_, bias_ih_, bias_hh_);
  }

 private:
  Tensor weight_ih_, weight_hh_, bias_ih_, bias_hh_;
};

/// heed-rnn-seq2seq: an LSTM encoder-decoder with one attention. With "bahdanau" and "concat" each
/// step asks with its previous hidden state, feeds [embedding; context] to the cell and reads
/// [hidden; context]; with "luong-…" it asks with the new one and reads tanh(W [context; hidden]).
class RnnSeq2Seq final : public Model {
 public:
  RnnSeq2Seq(const Json& config, const Scope& root) {
    embed_ = size_of(config, "d_model");
    hidden_ = size_of(config, "hidden_size");
    source_vocabulary_ = size_of(config, "vocab_size");
    vocab_size_ = size_or(config, "decoder_vocab_size", source_vocabulary_);
    const int64_t size = size_or(config, "attention_size", hidden_);
    dropout_ = rate_or(config, "dropout", 0.0);
    const RnnScore score = rnn_score(config, "attention");
    after_ = attends_after(score);
    check_size(config, root,
               static_cast<double>(source_vocabulary_ + vocab_size_) * static_cast<double>(embed_) +
                   static_cast<double>(hidden_) *
                       static_cast<double>(2 * vocab_size_ + 8 * embed_ + 16 * hidden_ + 4 * size));
    const Init init = Init::normal(1.0 / std::sqrt(static_cast<double>(embed_)));
    const Scope encoder = root / "encoder";
    const Scope decoder = root / "decoder";
    source_ = Embedding(encoder / "embed_tokens", source_vocabulary_, embed_, init);
    encoder_ = LstmCell(encoder / "lstm", embed_, hidden_);
    target_ = Embedding(decoder / "embed_tokens", vocab_size_, embed_, init);
    decoder_ = LstmCell(decoder / "lstm", after_ ? embed_ : embed_ + hidden_, hidden_);
    attention_ = RnnAttention(decoder / "attention", score, hidden_, size);
    if (after_) {
      combine_ = Linear(decoder / "attention" / "w_combine", 2 * hidden_, hidden_, {.bias = false});
    }
    out_ = Linear(decoder / "out", after_ ? hidden_ : 2 * hidden_, vocab_size_);
    start_ = token_or(config, "decoder_start_token_id", 1, vocab_size_);
    padding_ = token_or(config, "pad_token_id", 0, vocab_size_);
  }

  ModelKind kind() const override { return ModelKind::encoder_decoder; }
  int64_t vocab_size() const override { return vocab_size_; }
  int64_t hidden_size() const override { return hidden_; }
  int64_t num_layers() const override { return 1; }
  int64_t num_heads() const override { return 1; }

  ModelOutput do_forward(const ModelInput& input) const override {
    const Encoded source = run_encoder(input);
    const TokenRows target =
        token_rows(target_ids(input, start_, padding_), input.decoder_attention_mask, vocab_size_,
                   false, "decoder_input_ids");
    check(source.memory.size(0) == target.batch, "forward", "{} inputs and {} decoder inputs",
          source.memory.size(0), target.batch);
    const HookScope hook_scope("decoder");
    const Tensor embedded = target.pass(input).dropout(
        observe("hook_embed", target_(reshape(target.ids, {target.batch, target.length}))),
        dropout_);
    const Tensor prepared = attention_.prepare(source.memory);
    LstmState state = source.last;
    std::vector<Tensor> read, seen;
    for (const Tensor& word : chunks(embedded, 1, 1)) {
      const Step next = step(squeeze(word, 1), state, source.memory, prepared, source.masked);
      state = next.state;
      read.push_back(next.read);
      seen.push_back(next.weights);
    }
    show(stack(seen, 1), source.memory);
    const Tensor rows = target.pass(input).dropout(
        reshape(stack(read, 1), {target.layout.rows(), read.front().size(1)}), dropout_);
    ModelOutput output = token_results(rows, target, out_, input, same_position_targets);
    if (input.want_logits) {
      output.encoder_last_hidden_state = source.memory;
    }
    return output;
  }

  /// Rows [hidden | cell] of the positions that are not padding: the last of a sequence is the
  /// decoder's first state.
  EncoderOutput encode(const ModelInput& input) const override {
    const Encoded source = run_encoder(input);
    const int64_t length = source.memory.size(1);
    std::vector<int64_t> real, lengths;
    for (int64_t b = 0; b < source.memory.size(0); ++b) {
      const size_t before = real.size();
      for (int64_t t = 0; t < length; ++t) {
        const int64_t place = b * length + t;
        if (!source.masked.defined() || source.masked.data<uint8_t>()[place] == 0) {
          real.push_back(place);
        }
      }
      check(real.size() > before, "forward", "sequence {} of the batch has no real token", b);
      lengths.push_back(static_cast<int64_t>(real.size() - before));
    }
    const Tensor both = concat({source.memory, source.cells}, 2);
    const Tensor index = Tensor::from(real, {static_cast<int64_t>(real.size())});
    return {index_rows(reshape(both, {both.size(0) * length, 2 * hidden_}), index),
            Layout::ragged(lengths)};
  }

  SequenceCache new_cache(int64_t) const override { return {}; }

  Tensor decode(const Tensor& ids, Pass& pass) const override {
    const HookScope hook_scope("decoder");
    std::vector<Tensor> rows;
    for (int64_t i = 0; i < pass.layout.batch; ++i) {
      SequenceCache& cache = *pass.caches[static_cast<size_t>(i)];
      if (cache.state.empty()) {
        cache.state = first_state(pass, i);
      }
      std::vector<Tensor> seen;
      for (int64_t row = pass.layout.start(i); row < pass.layout.start(i + 1); ++row) {
        const Tensor x = observe("hook_embed", target_(slice(ids, 0, row, row + 1)));
        const Step next =
            step(x, {cache.state[0], cache.state[1]}, cache.state[2], cache.state[3], {});
        cache.state[0] = next.state.h;
        cache.state[1] = next.state.c;
        rows.push_back(next.read);
        seen.push_back(next.weights);
      }
      show(stack(seen, 1), cache.state[2]);
      cache.length += pass.layout.length_of(i);
    }
    return concat(rows, 0);
  }

  Tensor do_logits(const Tensor& rows) const override { return out_(rows); }

 private:
  struct Encoded {
    Tensor memory;   ///< [B, T, hidden]: hidden states, 0 at padding
    Tensor cells;    ///< [B, T, hidden]
    LstmState last;  ///< at each sequence's true end
    Tensor masked;   ///< u8 [B, T], 1 = padding; undefined where there is none
  };
  struct Step {
    LstmState state;
    Tensor read;     ///< what the output layer reads, [B, hidden or 2 hidden]
    Tensor weights;  ///< [B, T]
  };

  Encoded run_encoder(const ModelInput& input) const {
    check_inputs(input, {.decoder = true}, "heed-rnn-seq2seq");
    const TokenRows tokens =
        token_rows(input.input_ids, input.attention_mask, source_vocabulary_, false);
    const HookScope hook_scope("encoder");
    Encoded result;
    const Tensor& real = tokens.layout.key_padding;
    if (real.defined()) {
      result.masked = Tensor::empty(real.shape(), DType::u8);
      for (int64_t i = 0; i < real.numel(); ++i) {
        result.masked.data<uint8_t>()[i] = real.data<uint8_t>()[i] == 0;
      }
    }
    const Tensor embedded = tokens.pass(input).dropout(
        observe("hook_embed", source_(reshape(tokens.ids, {tokens.batch, tokens.length}))),
        dropout_);
    const Tensor zero = Tensor::zeros({tokens.batch, hidden_});
    LstmState state{zero, zero};
    std::vector<Tensor> memory, cells;
    for (const Tensor& word : chunks(embedded, 1, 1)) {
      LstmState next = encoder_(squeeze(word, 1), state);
      if (real.defined()) {
        const auto t = static_cast<int64_t>(memory.size());
        const Tensor on = contiguous(slice(real, 1, t, t + 1));
        memory.push_back(where(on, next.h, zero));
        next = {where(on, next.h, state.h), where(on, next.c, state.c)};
      } else {
        memory.push_back(next.h);
      }
      cells.push_back(next.c);
      state = next;
    }
    result.memory = stack(memory, 1);
    result.cells = stack(cells, 1);
    result.last = state;
    return result;
  }

  Step step(const Tensor& x, const LstmState& state, const Tensor& memory, const Tensor& prepared,
            const Tensor& masked) const {
    Step result;
    if (after_) {
      result.state = decoder_(x, state);
      result.weights = attention_.weights(result.state.h, prepared, masked);
      const Tensor context = RnnAttention::context(result.weights, memory);
      result.read = combine_(concat({context, result.state.h}, 1), Activation::tanh);
    } else {
      result.weights = attention_.weights(state.h, prepared, masked);
      const Tensor context = RnnAttention::context(result.weights, memory);
      result.state = decoder_(concat({x, context}, 1), state);
      result.read = concat({result.state.h, context}, 1);
    }
    return result;
  }

  /// Hidden, cell, memory [1, T, hidden] and its prepared form of one sequence.
  std::vector<Tensor> first_state(const Pass& pass, int64_t sequence) const {
    check(pass.encoder_hidden_states != nullptr && pass.encoder_layout->batch == pass.layout.batch,
          "decode", "the first pass of a sequence needs the encoder's result");
    const Layout& layout = *pass.encoder_layout;
    const int64_t end = layout.start(sequence + 1);
    const Tensor rows = slice(*pass.encoder_hidden_states, 0, layout.start(sequence), end);
    const Tensor last = slice(*pass.encoder_hidden_states, 0, end - 1, end);
    const Tensor memory = contiguous(unsqueeze(slice(rows, 1, 0, hidden_), 0));
    return {contiguous(slice(last, 1, 0, hidden_)),
            contiguous(slice(last, 1, hidden_, 2 * hidden_)), memory, attention_.prepare(memory)};
  }

  static void show(const Tensor& weights, const Tensor& memory) {
    const HookScope block("blocks", 0);
    const HookScope hook_scope("cross_attn");
    show_weights(weights, memory);
  }

  int64_t embed_ = 0, hidden_ = 0, source_vocabulary_ = 0, vocab_size_ = 0, start_ = 0,
          padding_ = 0;
  double dropout_ = 0.0;
  bool after_ = false;
  Embedding source_, target_;
  LstmCell encoder_, decoder_;
  RnnAttention attention_;
  Linear combine_, out_;
};

}  // namespace

ModelSpec heed_rnn_seq2seq_spec() {
  ModelSpec spec;
  spec.model_type = "heed-rnn-seq2seq";
  spec.kind = ModelKind::encoder_decoder;
  spec.heads = {{"", "translation", ""}};
  spec.train_tasks = {"translate"};
  spec.fresh_config = [](const FreshSizes& sizes) {
    return stack_fresh_config("heed-rnn-seq2seq", sizes)
        .set("hidden_size", sizes.hidden_size)
        .set("attention_size", sizes.hidden_size)
        .set("attention", "bahdanau");
  };
  spec.make = [](const Json& config, const Scope& scope) -> std::unique_ptr<Model> {
    return std::make_unique<RnnSeq2Seq>(config, scope);
  };
  return spec;
}

}  // namespace heed
