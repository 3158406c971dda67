#include "models/encoder_decoder.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "models/forward.h"

namespace heed {

int64_t token_or(const Json& config, std::string_view key, int64_t otherwise, int64_t vocabulary) {
  return config.integer_or(key, otherwise, 0, vocabulary - 1);
}

namespace {

/// The layout in which every `passages` sequences are one: rows lie as they are.
Layout fuse_passages(const Layout& layout, int64_t passages) {
  check(passages >= 1 && layout.batch % passages == 0, "forward",
        "{} sequences cannot be {} passages for each example", layout.batch, passages);
  Layout fused = layout;
  fused.batch = layout.batch / passages;
  fused.length = layout.length * passages;
  if (layout.is_ragged()) {
    fused.starts.clear();
    for (int64_t i = 0; i <= layout.batch; i += passages) {
      fused.starts.push_back(layout.start(i));
    }
  } else if (layout.key_padding.defined()) {
    fused.key_padding = reshape(layout.key_padding, {fused.batch, fused.length});
  }
  return fused;
}

}  // namespace

EncoderOutput EncoderDecoder::encode_source(const ModelInput& input,
                                            const TokenRows& source) const {
  const HookScope hook_scope("encoder");
  Pass pass = source.pass(input);
  return {run_encoder(source, input, pass),
          input.passages == 1 ? source.layout : fuse_passages(source.layout, input.passages)};
}

EncoderOutput EncoderDecoder::encode(const ModelInput& input) const {
  return encode_source(input, read_source(input, true));
}

namespace {
/// At the position that the number of real labels gives, as the reference counts.
int64_t last_label(std::span<const int64_t> labels, int64_t padding) {
  const auto real = std::count_if(labels.begin(), labels.end(),
                                  [&](int64_t label) { return label != -100 && label != padding; });
  return real == 0 ? padding : labels[static_cast<size_t>(real - 1)];
}
}  // namespace

Tensor target_ids(const ModelInput& input, int64_t start, int64_t padding) {
  if (input.decoder_input_ids.defined()) {
    return input.decoder_input_ids;
  }
  check(input.labels.defined() && input.labels.rank() == 2, "forward",
        "decoder_input_ids is missing, and there are no labels to make it from");
  const Tensor labels = input.labels.to(DType::i64).contiguous();
  Tensor ids = Tensor::empty(labels.shape(), DType::i64);
  for (int64_t b = 0; b < labels.size(0); ++b) {
    const int64_t first = start == kLastLabel
                              ? last_label({labels.data<int64_t>() + b * labels.size(1),
                                            static_cast<size_t>(labels.size(1))},
                                           padding)
                              : start;
    for (int64_t t = 0; t < labels.size(1); ++t) {
      const int64_t place = b * labels.size(1) + t;
      const int64_t before = t == 0 ? first : labels.data<int64_t>()[place - 1];
      ids.data<int64_t>()[place] = before == -100 ? padding : before;
    }
  }
  return ids;
}

Tensor EncoderDecoder::decoder_ids(const ModelInput& input) const {
  const bool given = input.decoder_input_ids.defined() || input.labels.defined();
  return given ? target_ids(input, target_.start, target_.padding) : Tensor();
}

Tensor decoder_input_ids(const Model& model, const ModelInput& input) {
  const auto* both = dynamic_cast<const EncoderDecoder*>(&model);
  return both == nullptr ? Tensor() : both->decoder_ids(input);
}

EncoderDecoder::BothSides EncoderDecoder::run_both(const ModelInput& input) const {
  BothSides both;
  const TokenRows& source = both.source = read_source(input, input.skip_padding);
  const TokenRows& target = both.target =
      token_rows(target_ids(input, target_.start, target_.padding), input.decoder_attention_mask,
                 target_.vocabulary, input.skip_padding, "decoder_input_ids");
  check(source.batch == target.batch * input.passages, "forward",
        "{} inputs do not fit {} decoder inputs with {} passages each", source.batch, target.batch,
        input.passages);
  both.encoded = encode_source(input, source);
  Pass pass = target.pass(input);
  pass.encoder_hidden_states = &both.encoded.rows;
  pass.encoder_layout = &both.encoded.layout;
  const HookScope hook_scope("decoder");
  both.rows = run_decoder(target.ids, target.positions, pass, &target);
  return both;
}

ModelOutput EncoderDecoder::do_forward(const ModelInput& input) const {
  check(head_.defined() || !input.labels.defined(), "forward",
        "this model has no LM head for labels or logits");
  const BothSides both = run_both(input);
  if (!head_.defined()) {
    ModelOutput output;
    output.last_hidden_state = both.target.to_batch(both.rows);
    output.encoder_last_hidden_state = both.source.to_batch(both.encoded.rows);
    return output;
  }
  const Tensor rows = head_scale_ == 1.0 ? both.rows : mul(both.rows, head_scale_);
  ModelOutput output = token_results(rows, both.target, head_, input, same_position_targets);
  if (input.want_logits) {
    output.encoder_last_hidden_state = both.source.to_batch(both.encoded.rows);
  }
  return output;
}

SequenceCache EncoderDecoder::new_cache(int64_t capacity) const {
  const int64_t most = decoder_context_length();
  const int64_t room = most > 0 ? std::min(capacity, most) : capacity;
  SequenceCache cache =
      self_caches(target_.layers, target_.heads, room, target_.head_dim, kv_type_);
  cache.cross.resize(static_cast<size_t>(target_.layers));
  return cache;
}

Tensor EncoderDecoder::decode(const Tensor& ids, Pass& pass) const {
  const HookScope hook_scope("decoder");
  Tensor rows = run_decoder(ids, pass.positions(), pass, nullptr);
  advance_caches(pass);
  return rows;
}

Tensor EncoderDecoder::do_logits(const Tensor& rows) const {
  check(head_.defined(), "generate",
        "this model has no LM head; load one made for text generation");
  return head_(head_scale_ == 1.0 ? rows : mul(rows, head_scale_));
}

void EncoderDecoder::set_target(const Json& config, const StackSizes& decoder, int64_t padding,
                                int64_t start) {
  target_.layers = decoder.layers;
  target_.heads = decoder.heads;
  target_.head_dim = decoder.head_dim();
  target_.padding = token_or(config, "pad_token_id", padding, target_.vocabulary);
  target_.start = token_or(config, "decoder_start_token_id", start, target_.vocabulary);
}

TokenTranslator::TokenTranslator(const Json& config, std::string name, const StackSizes& encoder,
                                 const StackSizes& decoder, int64_t context)
    : encoder_sizes_(encoder),
      decoder_sizes_(decoder),
      context_length_(size_or(config, "max_position_embeddings", context)),
      vocab_size_(size_of(config, "vocab_size")),
      decoder_context_(context_length_),
      name_(std::move(name)) {
  hidden_size_ = encoder.width;
  target_.vocabulary = size_or(config, "decoder_vocab_size", vocab_size_);
}

void TokenTranslator::make_encoder(const Scope& scope, const Embedding& tokens,
                                   TokenStack::Options options) {
  options.context = context_length_;
  options.sizes = encoder_sizes_;
  options.hidden_name = "encoder_hidden_states";
  encoder_ = TokenStack(scope / "encoder", tokens, options);
}

void TokenTranslator::make_decoder(const Scope& scope, const Embedding& tokens,
                                   TokenStack::Options options) {
  options.context = decoder_context_;
  options.sizes = decoder_sizes_;
  options.hidden_name = "decoder_hidden_states";
  options.causal = options.cross = true;
  decoder_ = TokenStack(scope / "decoder", tokens, options);
}

TokenRows TokenTranslator::read_source(const ModelInput& input, bool skip_padding) const {
  return read_tokens(
      input, {.decoder = true, .global_mask = reads_global_mask_, .answers = reads_answers_}, name_,
      vocab_size_, context_length_, skip_padding);
}

Tensor TokenTranslator::run_encoder(const TokenRows& source, const ModelInput& input,
                                    Pass& pass) const {
  if (input.global_attention_mask.defined()) {
    pass.global_rows = global_rows(input.global_attention_mask, source);
  }
  return encoder_(source.ids, source.positions, pass, gradient_checkpointing_, &source);
}

Tensor TokenTranslator::run_decoder(const Tensor& ids, const Tensor& positions, Pass& pass,
                                    const TokenRows* tokens) const {
  return decoder_(ids, positions, pass, gradient_checkpointing_, tokens);
}

}  // namespace heed
