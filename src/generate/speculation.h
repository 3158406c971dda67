#pragma once

#include <vector>

#include "heed/generate.h"

namespace heed {

/// Guesses tokens for sequences of a scheduler.
struct Scheduler::Drafter {
  /// Throws `Error` where the draft model has another vocabulary.
  Drafter(const Model& model, Speculation options);

  /// Of one sequence.
  struct State {
    SequenceCache cache;       ///< of the draft model
    std::vector<int64_t> fed;  ///< tokens that the cache holds
    int64_t wanted = 4;        ///< guesses that are likely to pay
  };

  /// At most `most` tokens that may follow `tokens`. `generated` of them are new.
  std::vector<int64_t> guess(const Request& request, const std::vector<int64_t>& tokens,
                             int64_t generated, int64_t most, State& state) const;
  /// Adapts the number of guesses: `accepted` of `guessed` were right.
  void learn(int64_t guessed, int64_t accepted, State& state) const;

  const Model& model;
  Speculation options;

 private:
  std::vector<int64_t> ask_draft(const Request& request, const std::vector<int64_t>& tokens,
                                 int64_t generated, int64_t most, State& state) const;
};

/// What followed the last earlier occurrence of the last tokens: the longest of the last
/// `longest` … 2 tokens that occurs, at most `most` tokens after it. Empty where none does.
std::vector<int64_t> look_up(const std::vector<int64_t>& tokens, int64_t longest, int64_t most);

}  // namespace heed
