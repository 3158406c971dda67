#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "generate/session.h"
#include "heed/generate.h"

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

class BeamSearch {
 public:
  BeamSearch(const Model& model, const Request& request, const BeamOptions& options)
      : model_(model), request_(request), options_(options) {}

  std::vector<Hypothesis> run() {
    int64_t limit = request_.max_tokens;
    const auto fed = static_cast<int64_t>(start_tokens(model_, request_).size());
    if (model_.context() > 0) {
      limit = std::min(limit, model_.context() + 1 - fed);
    }
    beams_.resize(1);
    Tensor logits = start_sequence(model_, request_, fed + limit, beams_[0].cache);
    for (int64_t step = 1; step <= limit; ++step) {
      advance(logits, step == limit);
      if (beams_.empty() || done(step)) {
        break;
      }
      std::vector<int64_t> tokens;
      std::vector<SequenceCache*> caches;
      for (Beam& beam : beams_) {
        tokens.push_back(beam.ids.back());
        caches.push_back(&beam.cache);
      }
      logits = continue_sequences(model_, tokens, std::move(caches));
    }
    if (static_cast<int64_t>(finished_.size()) > options_.n_best) {
      finished_.resize(static_cast<size_t>(options_.n_best));
    }
    return finished_;
  }

 private:
  double score(double sum, size_t length) const {
    return sum / std::pow(static_cast<double>(length), options_.length_penalty);
  }

  bool ends(int64_t id) const {
    return std::find(request_.end.begin(), request_.end.end(), id) != request_.end.end();
  }

  /// The 2 × beams best continuations of all beams, best first.
  std::vector<Continuation> best_continuations(const Tensor& logits) const {
    const int64_t vocabulary = logits.size(1);
    const auto wanted = static_cast<size_t>(2 * options_.beams);
    std::vector<Continuation> all;
    for (size_t b = 0; b < beams_.size(); ++b) {
      const float* row = logits.data<float>() + static_cast<int64_t>(b) * vocabulary;
      const double largest = *std::max_element(row, row + vocabulary);
      double sum = 0.0;
      for (int64_t i = 0; i < vocabulary; ++i) {
        sum += std::exp(row[i] - largest);
      }
      const double normaliser = largest + std::log(sum);
      check(std::isfinite(normaliser), "beam_search", "the model's logits are not finite");
      std::vector<int64_t> order(static_cast<size_t>(vocabulary));
      std::iota(order.begin(), order.end(), 0);
      const size_t count = std::min(wanted, order.size());
      std::partial_sort(
          order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
          [row](int64_t a, int64_t c) { return row[a] > row[c] || (row[a] == row[c] && a < c); });
      for (size_t i = 0; i < count; ++i) {
        all.push_back({b, order[i], beams_[b].sum + row[order[i]] - normaliser});
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
    for (size_t rank = 0; rank < best.size(); ++rank) {
      const bool complete = last || ends(best[rank].id);
      if (complete && static_cast<int64_t>(rank) < options_.beams) {
        add_finished(best[rank]);
      } else if (!complete && static_cast<int64_t>(running.size()) < options_.beams) {
        running.push_back(best[rank]);
      }
    }
    follow(running);
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
    return options_.early_stopping ||
           score(beams_.front().sum, static_cast<size_t>(step)) <= finished_.back().score;
  }

  const Model& model_;
  const Request& request_;
  const BeamOptions& options_;
  std::vector<Beam> beams_;
  std::vector<Hypothesis> finished_;
};

}  // namespace

std::vector<Hypothesis> beam_search(const Model& model, const Request& request,
                                    const BeamOptions& options) {
  if (options.beams < 1 || options.beams > 64 || options.n_best < 1 ||
      options.n_best > options.beams) {
    fail(ErrorKind::usage, "--beam-size",
         "{} beams and {} best: give 1 to 64 beams and no more best", options.beams,
         options.n_best);
  }
  return BeamSearch(model, request, options).run();
}

}  // namespace heed
