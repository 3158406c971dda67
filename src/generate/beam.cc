#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "generate/prefill.h"
#include "generate/sampling.h"
#include "heed/generate.h"
#include "heed/ops.h"

namespace heed {
namespace {

struct Beam {
  std::vector<int64_t> ids;
  double sum = 0.0;  // of log-probabilities
  SequenceCache cache;
};

struct Continuation {
  size_t beam;
  int64_t id;
  double sum;
};

/// The `count` largest of a row, largest first, of equals the first: one pass with a short list.
std::vector<int64_t> best_ids(const float* row, int64_t vocabulary, size_t count) {
  std::vector<int64_t> best;
  best.reserve(count + 1);
  float least = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < vocabulary; ++i) {
    if (best.size() == count && !(row[i] > least)) {
      continue;
    }
    auto place = best.end();
    while (place != best.begin() && row[i] > row[*std::prev(place)]) {
      --place;
    }
    best.insert(place, i);
    if (best.size() > count) {
      best.pop_back();
    }
    if (best.size() == count) {
      least = row[best.back()];
    }
  }
  return best;
}

/// The search of one request. The caller runs the model, for many searches at a time.
class BeamSearch {
 public:
  BeamSearch(const Model& model, const Request& request, const BeamOptions& options)
      : request_(request), options_(options) {
    limit_ = request.max_tokens;
    start_ = start_tokens(model, request);
    const auto fed = static_cast<int64_t>(start_.size());
    if (model.decoder_context_length() > 0) {
      limit_ = std::min(limit_, model.decoder_context_length() + 1 - fed);
    }
    beams_.resize(1);
    take(log_softmax(start_sequence(model, request, start_, fed + limit_, beams_[0].cache)));
  }

  bool running() const { return running_; }
  /// Adds each beam's last token and its cache.
  void feed(std::vector<int64_t>& tokens, std::vector<SequenceCache*>& caches) {
    for (Beam& beam : beams_) {
      tokens.push_back(beam.ids.back());
      caches.push_back(&beam.cache);
    }
  }
  int64_t beams() const { return static_cast<int64_t>(beams_.size()); }

  /// Takes log-probabilities [beams, vocabulary] of the tokens after those fed.
  void take(const Tensor& log_probabilities) {
    ++step_;
    const bool last = step_ >= limit_;
    advance(allowed(log_probabilities, forced_token(request_, step_ - 1, limit_)), last);
    running_ = !beams_.empty() && step_ < limit_ && !done(step_);
    if (!running_) {
      beams_.clear();
    }
  }

  std::vector<Hypothesis> result() {
    if (static_cast<int64_t>(finished_.size()) > options_.n_best) {
      finished_.resize(static_cast<size_t>(options_.n_best));
    }
    return std::move(finished_);
  }

 private:
  double score(double sum, size_t length) const {
    return sum / std::pow(static_cast<double>(length), options_.length_penalty);
  }

  bool ends(int64_t id) const {
    return std::find(request_.end.begin(), request_.end.end(), id) != request_.end.end();
  }

  Tensor allowed(const Tensor& log_probabilities, int64_t forced) const {
    const bool processed = changes_logits(request_.sampling);
    if (forced < 0 && !processed && request_.suppress_tokens.empty()) {
      return log_probabilities;
    }
    Tensor changed = log_probabilities.clone();
    for (int64_t row = 0; row < changed.size(0); ++row) {
      if (processed) {
        std::vector<int64_t> tokens = start_;
        const std::vector<int64_t>& ids = beams_[static_cast<size_t>(row)].ids;
        tokens.insert(tokens.end(), ids.begin(), ids.end());
        process_logits(
            {changed.data<float>() + row * changed.size(1), static_cast<size_t>(changed.size(1))},
            tokens, start_.size(), request_.sampling);
      }
      restrict_choice(changed.data<float>() + row * changed.size(1), changed.size(1), request_,
                      forced);
    }
    return changed;
  }

  /// The 2 × beams best continuations of all beams, best first.
  std::vector<Continuation> best_continuations(const Tensor& log_probabilities) const {
    const int64_t vocabulary = log_probabilities.size(1);
    const auto wanted = static_cast<size_t>(2 * options_.beams);
    std::vector<Continuation> all;
    for (size_t b = 0; b < beams_.size(); ++b) {
      const float* row = log_probabilities.data<float>() + static_cast<int64_t>(b) * vocabulary;
      for (const int64_t id : best_ids(row, vocabulary, wanted)) {
        check(!std::isnan(row[id]), "beam_search", "the model's logits are not finite");
        if (std::isfinite(row[id])) {
          all.push_back({b, id, beams_[b].sum + row[id]});
        }
      }
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Continuation& a, const Continuation& b) { return a.sum > b.sum; });
    if (all.size() > wanted) {
      all.resize(wanted);
    }
    return all;
  }

  void add_finished(const Continuation& c) {
    Hypothesis hypothesis{beams_[c.beam].ids, 0.0};
    hypothesis.ids.push_back(c.id);
    hypothesis.score = score(c.sum, hypothesis.ids.size());
    finished_.push_back(std::move(hypothesis));
    std::stable_sort(finished_.begin(), finished_.end(),
                     [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
    if (static_cast<int64_t>(finished_.size()) > options_.beams) {
      finished_.pop_back();
    }
  }

  /// Finished ones among the best `beams` are kept; the best `beams` of the others go on.
  void advance(const Tensor& logits, bool last) {
    const std::vector<Continuation> best = best_continuations(logits);
    std::vector<Continuation> running;
    std::vector<BeamStep> ended;
    for (size_t rank = 0; rank < best.size(); ++rank) {
      const bool complete = last || ends(best[rank].id);
      if (complete && static_cast<int64_t>(rank) < options_.beams) {
        add_finished(best[rank]);
        ended.push_back(step_of(best[rank], true));
      } else if (!complete && static_cast<int64_t>(running.size()) < options_.beams) {
        running.push_back(best[rank]);
      }
    }
    if (options_.on_step) {
      std::vector<BeamStep> kept;
      kept.reserve(running.size());
      for (const Continuation& each : running) {
        kept.push_back(step_of(each, false));
      }
      kept.insert(kept.end(), ended.begin(), ended.end());
      options_.on_step(kept);
    }
    follow(running);
  }

  BeamStep step_of(const Continuation& c, bool finished) const {
    return {static_cast<int64_t>(c.beam), c.id, score(c.sum, beams_[c.beam].ids.size() + 1),
            finished};
  }

  /// Caches go along: the last user of a beam's cache takes it, the others copy.
  void follow(const std::vector<Continuation>& running) {
    std::vector<size_t> uses(beams_.size(), 0);
    for (const Continuation& c : running) {
      ++uses[c.beam];
    }
    std::vector<Beam> next;
    for (const Continuation& c : running) {
      Beam beam{beams_[c.beam].ids, c.sum, {}};
      beam.ids.push_back(c.id);
      beam.cache =
          --uses[c.beam] == 0 ? std::move(beams_[c.beam].cache) : beams_[c.beam].cache.copy();
      next.push_back(std::move(beam));
    }
    beams_ = std::move(next);
  }

  bool done(int64_t step) const {
    if (static_cast<int64_t>(finished_.size()) < options_.beams) {
      return false;
    }
    if (options_.early_stopping == EarlyStopping::yes) {
      return true;
    }
    const bool longest =
        options_.early_stopping == EarlyStopping::never && options_.length_penalty > 0.0;
    return score(beams_.front().sum, static_cast<size_t>(longest ? limit_ : step)) <=
           finished_.back().score;
  }

  const Request& request_;
  const BeamOptions& options_;
  std::vector<int64_t> start_;  // what is fed before the first new token
  int64_t limit_ = 0;
  int64_t step_ = 0;
  bool running_ = true;
  std::vector<Beam> beams_;
  std::vector<Hypothesis> finished_;
};

}  // namespace

EarlyStopping early_stopping_from_name(std::string_view name) {
  if (name == "true") return EarlyStopping::yes;
  if (name == "false") return EarlyStopping::no;
  if (name == "never") return EarlyStopping::never;
  fail(ErrorKind::usage, "early_stopping", "'{}' is not known; true, false or never", name);
}

std::vector<std::vector<Hypothesis>> beam_search(const Model& model,
                                                 const std::vector<Request>& requests,
                                                 const BeamOptions& options) {
  if (options.beams < 1 || options.beams > 64 || options.n_best < 1 ||
      options.n_best > options.beams) {
    fail(ErrorKind::usage, "beam_size", "{} beams and {} best: give 1 to 64 beams and no more best",
         options.beams, options.n_best);
  }
  const NoGrad no_grad;
  std::vector<BeamSearch> searches;
  searches.reserve(requests.size());
  for (const Request& request : requests) {
    searches.emplace_back(model, request, options);
  }
  for (;;) {
    std::vector<int64_t> tokens;
    std::vector<SequenceCache*> caches;
    std::vector<std::pair<BeamSearch*, int64_t>> fed;
    for (BeamSearch& search : searches) {
      if (search.running()) {
        fed.emplace_back(&search, search.beams());
        search.feed(tokens, caches);
      }
    }
    if (fed.empty()) {
      break;
    }
    const Tensor logits = log_softmax(continue_sequences(model, tokens, std::move(caches)));
    int64_t row = 0;
    for (const auto& [search, count] : fed) {
      search->take(slice(logits, 0, row, row + count));
      row += count;
    }
  }
  std::vector<std::vector<Hypothesis>> results;
  results.reserve(searches.size());
  for (BeamSearch& search : searches) {
    results.push_back(search.result());
  }
  return results;
}

std::vector<Hypothesis> beam_search(const Model& model, const Request& request,
                                    const BeamOptions& options) {
  return beam_search(model, std::vector{request}, options).front();
}

}  // namespace heed
