#include "base/check.h"
#include "base/language.h"
#include "pipelines/alignment.h"
#include "pipelines/batches.h"
#include "pipelines/language_tokens.h"

namespace heed {

Translation::Translation(LoadedModel model) : ModelPipeline(std::move(model)) {
  check_suits(loaded_.model->kind() == ModelKind::encoder_decoder, kTask,
              say("an encoder-decoder model"), loaded_);
}

std::vector<ScoredText> Translation::operator()(std::string_view text,
                                                const TranslationOptions& options) const {
  return std::move((*this)(std::vector<std::string>{std::string(text)}, options).front());
}

std::vector<std::vector<ScoredText>> Translation::operator()(
    const std::vector<std::string>& texts, const TranslationOptions& options) const {
  const Model& model = *loaded_.model;
  std::vector<std::vector<ScoredText>> results(texts.size());
  // A blank line without a token is answered with a blank line, not reported.
  RunOptions run = options.run;
  run.on_error = [&](size_t i, const std::string& message) {
    results[i] = {ScoredText()};
    if (!is_blank(texts[i])) {
      report_error(options.run, kTask, i, message);
    }
  };
  // A language token may come in front.
  const int64_t most =
      std::max<int64_t>(model.context_length() - (options.source_lang.empty() ? 0 : 1), 0);
  TokenBatch tokens = encode_inputs(loaded_, texts, kTask, most, options.truncate, run);
  Request rules;
  rules.max_tokens = options.beam.max_tokens;
  apply_generation_tokens(model, rules);
  if (!options.source_lang.empty()) {
    const TokenId language = language_token(loaded_.tokenizer, options.source_lang, "source_lang");
    for (std::vector<TokenId>& ids : tokens.ids) {
      if (!ids.empty()) {
        set_source_language(loaded_.tokenizer, language, ids);
      }
    }
  }
  if (!options.target_lang.empty()) {
    set_target_language(model, loaded_.tokenizer,
                        language_token(loaded_.tokenizer, options.target_lang, "target_lang"),
                        rules);
  }
  const int64_t start = rules.decoder_start_token_id >= 0 ? rules.decoder_start_token_id
                                                          : generation_tokens(model).decoder_start;
  for_each_batch(lengths_of(tokens), kTask, options.run, [&](const std::vector<size_t>& together) {
    std::vector<Request> requests(together.size(), rules);
    for (size_t i = 0; i < together.size(); ++i) {
      requests[i].encoder = padded_input(tokens, {together[i]});
    }
    const auto found = beam_search(model, requests, options.beam);
    for (size_t i = 0; i < together.size(); ++i) {
      for (const Hypothesis& each : found[i]) {
        ScoredText text{.score = each.score, .ids = {each.ids.begin(), each.ids.end()}};
        text.text = loaded_.tokenizer.decode(text.ids, true);
        if (options.return_alignment) {
          text.alignment =
              soft_alignment(model, requests[i].encoder, start, {each.ids.begin(), each.ids.end()},
                             options.alignment_layer);
        }
        results[together[i]].push_back(std::move(text));
      }
    }
  });
  return results;
}

}  // namespace heed
