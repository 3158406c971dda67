#include <algorithm>
#include <cmath>
#include <limits>

#include "generate/prefill.h"
#include "heed/inspect.h"
#include "heed/tensor.h"
#include "kernels/softmax.h"
#include "pipelines/speech_decoding.h"

namespace heed {
namespace {

constexpr double kSecondsPerStep = 0.02;  // of the encoder's positions

using Matrix = std::vector<std::vector<double>>;  // [tokens][steps]

/// The median of each value and its `width - 1` neighbours, mirrored at the ends.
std::vector<double> median_filtered(const std::vector<double>& row, int64_t width) {
  const auto count = static_cast<int64_t>(row.size());
  const int64_t reach = width / 2;
  if (count <= reach) {
    return row;
  }
  std::vector<double> result(row.size());
  std::vector<double> near(static_cast<size_t>(width));
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      int64_t at = std::abs(i + j - reach);
      at = at < count ? at : 2 * (count - 1) - at;
      near[static_cast<size_t>(j)] = row[static_cast<size_t>(at)];
    }
    std::nth_element(near.begin(), near.begin() + reach, near.end());
    result[static_cast<size_t>(i)] = near[static_cast<size_t>(reach)];
  }
  return result;
}

/// One head's weights over the steps with sound, normalised over the tokens and smoothed, added to
/// `sum`.
void add_head(const Tensor& weights, int64_t steps, Matrix& sum) {
  const auto tokens = static_cast<int64_t>(sum.size());
  const int64_t all = weights.size(1);
  const Tensor f32 = weights.to(DType::f32).contiguous();
  Matrix rows(sum.size(), std::vector<double>(static_cast<size_t>(steps)));
  for (int64_t t = 0; t < tokens; ++t) {
    const float* row = f32.data<float>() + t * all;
    double total = 0.0;
    for (int64_t s = 0; s < steps; ++s) {
      total += row[s];
    }
    for (int64_t s = 0; s < steps; ++s) {
      rows[static_cast<size_t>(t)][static_cast<size_t>(s)] = row[s] / std::max(total, 1e-30);
    }
  }
  for (size_t s = 0; s < static_cast<size_t>(steps); ++s) {
    double mean = 0.0;
    double square = 0.0;
    for (const std::vector<double>& row : rows) {
      mean += row[s] / static_cast<double>(tokens);
    }
    for (const std::vector<double>& row : rows) {
      square += (row[s] - mean) * (row[s] - mean) / static_cast<double>(tokens);
    }
    const double spread = std::sqrt(square);
    for (std::vector<double>& row : rows) {
      row[s] = spread > 0.0 ? (row[s] - mean) / spread : 0.0;
    }
  }
  constexpr int64_t kMedianWidth = 7;
  for (size_t t = 0; t < rows.size(); ++t) {
    const std::vector<double> smooth = median_filtered(rows[t], kMedianWidth);
    for (size_t s = 0; s < smooth.size(); ++s) {
      sum[t][s] += smooth[s];
    }
  }
}

/// The step at which each token begins on the path of the largest sum from the first token and step
/// to the last ones (dynamic time warping).
std::vector<int64_t> first_steps(const Matrix& matrix) {
  const size_t tokens = matrix.size();
  const size_t steps = matrix.front().size();
  constexpr double kFar = std::numeric_limits<double>::infinity();
  std::vector<double> before(steps + 1, kFar);
  std::vector<uint8_t> from(tokens * steps);
  before[0] = 0.0;
  for (size_t t = 0; t < tokens; ++t) {
    std::vector<double> now(steps + 1, kFar);
    for (size_t s = 0; s < steps; ++s) {
      const double both = before[s];
      const double token = before[s + 1];
      const double step = now[s];
      const uint8_t kind = both < token && both < step ? 0 : token < both && token < step ? 1 : 2;
      from[t * steps + s] = kind;
      now[s + 1] = (kind == 0 ? both : kind == 1 ? token : step) - matrix[t][s];
    }
    before = std::move(now);
  }
  std::vector<int64_t> first(tokens, 0);
  auto t = static_cast<int64_t>(tokens) - 1;
  auto s = static_cast<int64_t>(steps) - 1;
  while (t >= 0 && s >= 0) {
    first[static_cast<size_t>(t)] = s;
    const uint8_t kind = t == 0   ? 2
                         : s == 0 ? 1
                                  : from[static_cast<size_t>(t) * steps + static_cast<size_t>(s)];
    t -= kind == 2 ? 0 : 1;
    s -= kind == 1 ? 0 : 1;
  }
  return first;
}

struct WordTokens {
  std::string text;
  size_t tokens = 0;
};

constexpr std::string_view kPunctuation = R"(!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~)";

/// Tokens that together are whole characters; from these, words that begin with a space or are
/// punctuation. Languages that write without spaces keep the former.
std::vector<WordTokens> split_words(const Tokenizer& tokenizer, const std::vector<int64_t>& ids,
                                    const std::string& language) {
  std::vector<WordTokens> pieces;
  std::vector<TokenId> held;
  for (size_t i = 0; i < ids.size(); ++i) {
    held.push_back(static_cast<TokenId>(ids[i]));
    const std::string text = tokenizer.decode(held, true);
    if (text.find("\xEF\xBF\xBD") == std::string::npos || i + 1 == ids.size()) {
      pieces.push_back({text, held.size()});
      held.clear();
    }
  }
  for (const char* spaceless : {"zh", "ja", "th", "lo", "my", "yue"}) {
    if (language == spaceless) {
      return pieces;
    }
  }
  std::vector<WordTokens> words;
  for (const WordTokens& piece : pieces) {
    const bool mark =
        piece.text.size() == 1 && kPunctuation.find(piece.text) != std::string_view::npos;
    if (words.empty() || piece.text.starts_with(' ') || mark) {
      words.push_back(piece);
    } else {
      words.back().text += piece.text;
      words.back().tokens += piece.tokens;
    }
  }
  return words;
}

bool is_one_of(std::string_view text, std::string_view marks) {
  return !text.empty() && marks.find(text) != std::string_view::npos;
}

/// Opening marks join the word behind them, closing ones the word before.
std::vector<SpokenWord> join_punctuation(const std::vector<SpokenWord>& words) {
  std::vector<SpokenWord> joined;
  bool open = false;
  for (const SpokenWord& word : words) {
    const std::string_view bare =
        std::string_view(word.text).substr(word.text.starts_with(' ') ? 1 : 0);
    if (!joined.empty() && open) {
      joined.back().text += word.text;
      joined.back().end = word.end;
      joined.back().probability = word.probability;
      open = false;
    } else if (!joined.empty() && bare.size() == word.text.size() &&
               is_one_of(word.text, "\"'.。,，!！?？:：”)]}、")) {
      joined.back().text += word.text;
    } else {
      joined.push_back(word);
      open = word.text.starts_with(' ') && is_one_of(bare, "\"'“¿([{-");
    }
  }
  return joined;
}

}  // namespace

std::vector<SpokenWord> word_times(const LoadedModel& loaded, const SpeechTokens& tokens,
                                   const EncoderOutput& encoded, const std::vector<int64_t>& start,
                                   const std::vector<int64_t>& ids, const std::string& language,
                                   int64_t frames) {
  const NoGrad no_grad;
  const Model& model = *loaded.model;
  std::vector<int64_t> fed = start;
  fed.push_back(tokens.no_timestamps);
  fed.insert(fed.end(), ids.begin(), ids.end());
  fed.push_back(tokens.end);
  const auto count = static_cast<int64_t>(fed.size());
  const int64_t steps = std::min(frames / 2, encoded.rows.size(0));
  if (ids.empty() || steps < 1 || count > model.context_length()) {
    return {};
  }
  RecorderOptions wanted;
  wanted.kind = "cross";
  SequenceCache cache = model.new_cache(count);
  Tensor rows;
  Matrix sum(fed.size(), std::vector<double>(static_cast<size_t>(steps)));
  {
    Recorder recorder(wanted);
    rows = read_tokens(model, fed, 0, count, encoded, cache);
    for (const auto& [layer, head] : tokens.alignment_heads) {
      add_head(recorder.at("cross", layer).record.weights(0, head), steps, sum);
    }
  }
  // The row of <|notimestamps|> is where the first token was written, and so on.
  const auto skipped = static_cast<std::ptrdiff_t>(start.size());
  const std::vector<int64_t> first = first_steps({sum.begin() + skipped, sum.end() - 1});
  const Tensor logits =
      model.logits(slice(rows, 0, skipped, skipped + static_cast<int64_t>(ids.size())))
          .contiguous();
  std::vector<SpokenWord> words;
  size_t token = 0;
  for (const WordTokens& word : split_words(loaded.tokenizer, ids, language)) {
    SpokenWord spoken{word.text, kSecondsPerStep * static_cast<double>(first[token])};
    for (size_t i = token; i < token + word.tokens; ++i) {
      const float* values = logits.data<float>() + static_cast<int64_t>(i) * logits.size(1);
      spoken.probability +=
          std::exp(values[ids[i]] - kernels::log_sum_exp(values, logits.size(1))) /
          static_cast<double>(word.tokens);
    }
    token += word.tokens;
    spoken.end = kSecondsPerStep * static_cast<double>(first[token]);
    words.push_back(std::move(spoken));
  }
  return join_punctuation(words);
}

}  // namespace heed
