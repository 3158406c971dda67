#pragma once

#include <vector>

#include "heed/retrieval.h"

namespace heed {

/// Generates the answer to a request whose prompt or encoder input is set, and returns its ids.
std::vector<int64_t> write_answer(const Model& model, const Tokenizer& tokenizer, Request request,
                                  const AskOptions& options, Answer& answer);

}  // namespace heed
