#include "models/encoder_decoder.h"

#include "base/check.h"

namespace heed {

int64_t token_or(const Json& config, std::string_view key, int64_t otherwise, int64_t vocabulary) {
  return config.integer_or(key, otherwise, 0, vocabulary - 1);
}

Memory EncoderDecoder::encode_source(const ModelInput& input, const TokenRows& source) const {
  const Place place("encoder");
  Pass pass;
  pass.layout = source.layout;
  pass.training = input.training;
  return {run_encoder(source, input, pass), source.layout};
}

Memory EncoderDecoder::encode(const ModelInput& input) const {
  return encode_source(input, read_source(input, true));
}

Tensor target_ids(const ModelInput& input, int64_t start, int64_t padding) {
  if (input.decoder_input_ids.defined()) {
    return input.decoder_input_ids;
  }
  check(input.labels.defined() && input.labels.rank() == 2, "forward",
        "decoder_input_ids is missing, and there are no labels to make it from");
  const Tensor labels = input.labels.to(DType::i64).contiguous();
  Tensor ids = Tensor::empty(labels.shape(), DType::i64);
  for (int64_t b = 0; b < labels.size(0); ++b) {
    for (int64_t t = 0; t < labels.size(1); ++t) {
      const int64_t place = b * labels.size(1) + t;
      const int64_t before = t == 0 ? start : labels.data<int64_t>()[place - 1];
      ids.data<int64_t>()[place] = before == -100 ? padding : before;
    }
  }
  return ids;
}

ModelOutput EncoderDecoder::forward(const ModelInput& input) const {
  const TokenRows source = read_source(input, input.skip_padding);
  const TokenRows target =
      token_rows(target_ids(input, target_.start, target_.padding), input.decoder_attention_mask,
                 target_.vocabulary, input.skip_padding, "decoder_input_ids");
  check(source.batch == target.batch, "forward", "{} inputs and {} decoder inputs", source.batch,
        target.batch);
  const Memory memory = encode_source(input, source);
  Pass pass;
  pass.layout = target.layout;
  pass.training = input.training;
  pass.memory = &memory.rows;
  pass.memory_layout = &memory.layout;
  Tensor rows;
  {
    const Place place("decoder");
    rows = run_decoder(target.ids, target.positions, pass, &target);
  }
  if (head_scale_ != 1.0) {
    rows = mul(rows, head_scale_);
  }
  ModelOutput output;
  if (input.want_logits) {
    output.logits = target.to_batch(observe("hook_logits", head_(rows)));
    output.encoder_last_hidden_state = source.to_batch(memory.rows);
  }
  if (input.labels.defined()) {
    output.loss = token_loss(rows, target, head_, input);
  }
  return output;
}

SequenceCache EncoderDecoder::new_cache(int64_t capacity) const {
  SequenceCache cache;
  const int64_t room = context() > 0 ? std::min(capacity, context()) : capacity;
  for (int64_t i = 0; i < target_.layers; ++i) {
    cache.self.emplace_back(target_.heads, room, target_.head_width, target_.head_width);
  }
  cache.cross.resize(static_cast<size_t>(target_.layers));
  return cache;
}

Tensor EncoderDecoder::decode(const Tensor& ids, Pass& pass) const {
  const Place place("decoder");
  Tensor rows = run_decoder(ids, pass.positions(), pass, nullptr);
  for (size_t i = 0; i < pass.caches.size(); ++i) {
    pass.caches[i]->length += pass.layout.length_of(static_cast<int64_t>(i));
  }
  return rows;
}

Tensor EncoderDecoder::logits(const Tensor& rows) const {
  return head_(head_scale_ == 1.0 ? rows : mul(rows, head_scale_));
}

}  // namespace heed
