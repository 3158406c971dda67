#include "heed/generation_options.h"

#include <charconv>

#include "base/check.h"
#include "base/file.h"
#include "heed/generate.h"

namespace heed::app {
namespace {

constexpr uint64_t kMostGrammar = uint64_t{16} << 20;  // bytes of a grammar's file

/// "ID=BIAS"; a bias of -inf rules a token out.
std::pair<int64_t, float> parse_bias(const std::string& text) {
  const size_t equals = text.find('=');
  const char* end = text.data() + text.size();
  int64_t id = -1;
  float bias = 0.0F;
  if (equals != std::string::npos) {
    const char* middle = text.data() + equals;
    const char* value = middle + 1 + (equals + 1 < text.size() && middle[1] == '+' ? 1 : 0);
    const auto first = std::from_chars(text.data(), middle, id);
    const auto second = std::from_chars(value, end, bias);
    if (first.ec == std::errc() && first.ptr == middle && id >= 0 && second.ec == std::errc() &&
        second.ptr == end) {
      return {id, bias};
    }
  }
  fail(ErrorKind::usage, "--logit-bias", "'{}' is no ID=BIAS such as 15=-5 or 15=-inf", text);
}

std::shared_ptr<const TokenConstraint> constraint(const TextOptions& options,
                                                  const Tokenizer& tokenizer) {
  if (options.grammar.empty() && options.json_schema.empty()) {
    return nullptr;
  }
  if (!options.grammar.empty() && !options.json_schema.empty()) {
    fail(ErrorKind::usage, "--grammar", "and --json-schema exclude each other");
  }
  const bool schema = options.grammar.empty();
  const std::string& file = schema ? options.json_schema : options.grammar;
  const std::string text = read_file(file, kMostGrammar);
  return std::make_shared<TokenConstraint>(
      schema ? Grammar::from_json_schema(text, file) : Grammar::from_gbnf(text, file),
      TokenTable(tokenizer));
}

}  // namespace

void add_text_options(OptionTable& table, TextOptions& o) {
  Sampling& s = o.sampling;
  table.group("Sampling");
  table.add("--temperature", &s.temperature, "0 is greedy");
  table.add("--top-k", &s.top_k, "Sample from the k most likely tokens; 0: all");
  table.add("--top-p", &s.top_p,
            "Sample from the smallest set of tokens with this total probability");
  table.add("--min-p", &s.min_p,
            "Sample from tokens with at least this fraction of the best token's probability");
  table.add("--typical-p", &s.typical_p,
            "Locally typical sampling: tokens whose surprise is nearest to the entropy, up to this "
            "total probability");
  table.add("--top-n-sigma", &s.top_n_sigma,
            "Sample from logits within this many standard deviations of the best one; 0: all");
  table.add("--mirostat", &s.mirostat,
            "2: Mirostat 2.0, which keeps the surprise per token even; 0: off");
  table.add("--mirostat-tau", &s.mirostat_tau, "Mirostat: target surprise per token, in bits");
  table.add("--mirostat-eta", &s.mirostat_eta, "Mirostat: learning rate");
  table.add("--seed", &s.seed, "The same seed gives the same text");
  table.group("Repetition");
  table.add("--repetition-penalty", &s.repetition_penalty, "Values above 1 reduce repetitions");
  table.add("--frequency-penalty", &s.frequency_penalty,
            "Subtracted from a token's logit for every time it was generated");
  table.add("--presence-penalty", &s.presence_penalty,
            "Subtracted from a token's logit once it was generated");
  table.add("--no-repeat-ngram", &s.no_repeat_ngram_size,
            "Never repeat a sequence of this many tokens; 0: off");
  table.add("--dry-multiplier", &s.dry_multiplier,
            "DRY: penalty for continuing a repetition; 0: off, 0.8 is usual");
  table.add("--dry-base", &s.dry_base, "DRY: growth with the length of the repetition");
  table.add("--dry-allowed-length", &s.dry_allowed_length, "DRY: shorter repetitions are free");
  table.add("--dry-range", &s.dry_range, "DRY: how many tokens it looks back; -1: all");
  table.add("--dry-breaker", &o.breakers,
            "DRY: text that no repetition extends across; may be given several times "
            "(default: line end, colon, quote, star)");
  table.group("Form of the text");
  table.add("--stop", &o.stops, "Text that ends a sequence; may be given several times");
  table.add("--stop-token", &o.stop_tokens,
            "Token id that ends a sequence; may be given several "
            "times");
  table.add("--ignore-eos", &o.ignore_eos, "Continue past the end-of-text token");
  table.add("--logit-bias", &o.logit_bias,
            "ID=BIAS, added to a token's logit; may be given several times");
  table.add("--grammar", &o.grammar, "GBNF grammar that the text must follow").file();
  table.add("--json-schema", &o.json_schema, "JSON schema that the text must follow").file();
  table.group("Speed");
  table.add("--lookup", &o.lookup,
            "Guess tokens from what came before (edits, summaries); the text stays the same");
  table
      .add("--draft", &o.draft,
           "Smaller model with the same tokenizer that guesses tokens; the text stays the same")
      .file();
}

GenerationOptions generation_options(const TextOptions& options, const Tokenizer& tokenizer) {
  GenerationOptions result;
  result.sampling = options.sampling;
  for (const std::string& bias : options.logit_bias) {
    result.sampling.logit_bias.push_back(parse_bias(bias));
  }
  result.sampling.check();
  result.stop_strings = options.stops;
  for (const int64_t id : options.stop_tokens) {
    result.stop_token_ids.push_back(static_cast<TokenId>(id));
  }
  result.ignore_eos = options.ignore_eos;
  if (!options.breakers.empty()) {
    result.dry_sequence_breakers = options.breakers;
  }
  result.constraint = constraint(options, tokenizer);
  result.speculation.lookup = options.lookup;
  if (!options.draft.empty()) {
    result.speculation.draft = load_model(find_model(options.draft), {.in_memory = true});
  }
  return result;
}

void add_kv_type(OptionTable& table, std::string& value) {
  table
      .add("--kv-type", &value,
           "Type of the cached keys and values: f16 and bf16 take half of f32's memory, q8_0 a "
           "quarter")
      .choices({"f32", "f16", "bf16", "q8_0"});
}

void add_kv_window(OptionTable& table, KvWindow& window) {
  table
      .add("--kv-window", &window.recent,
           "Keep only the first --sinks and the last N positions, so that the text may become "
           "longer than the model's context; 0 keeps all")
      .range(0, 1 << 24);
  table.add("--sinks", &window.sinks, "With --kv-window: positions at the beginning to keep")
      .range(0, 1 << 16);
}

void add_early_stopping(OptionTable& table, std::string& value) {
  table
      .add("--early-stopping", &value,
           "When a search with enough finished texts ends: at once, by a heuristic, or when none "
           "can be better")
      .choices({"true", "false", "never"});
}

}  // namespace heed::app
