#pragma once

#include <vector>

#include "heed/generate.h"

namespace heed {

/// Tokens of a prompt that are read at a time: bounds the memory of a pass.
inline constexpr int64_t kPrefillChunk = 512;
/// The same for a model whose cache slides: a chunk replaces older positions, so that its
/// first token sees at least three quarters of the window.
int64_t prefill_chunk(const Model& model);

/// Tokens [begin, end) of a prompt, which go into the cache behind those before them. `memory` (its
/// rows may be undefined) is the encoder's result.
struct PromptPart {
  const std::vector<int64_t>* tokens;
  int64_t begin, end;
  const EncoderOutput* memory;
  SequenceCache* cache;
};

/// Reads the parts in one pass, at most a chunk together; a model with an encoder reads one part at
/// a time. Gives the hidden rows of all parts, one behind the other.
Tensor read_parts(const Model& model, const std::vector<PromptPart>& parts);
/// The same for one part.
inline Tensor read_tokens(const Model& model, const std::vector<int64_t>& tokens, int64_t begin,
                          int64_t end, const EncoderOutput& memory, SequenceCache& cache) {
  return read_parts(model, {{&tokens, begin, end, &memory, &cache}});
}

/// The encoder's result for a request; undefined rows where the model has no encoder.
EncoderOutput encode_request(const Model& model, const Request& request);

/// The tokens that a sequence starts from: the prompt, behind the decoder's start token for an
/// encoder-decoder.
std::vector<int64_t> start_tokens(const Model& model, const Request& request);

/// Runs the encoder where the model has one and `tokens`, those of start_tokens(), in chunks,
/// through a fresh cache with room for `capacity` positions. Gives the logits [1, vocabulary] after
/// the last one.
Tensor start_sequence(const Model& model, const Request& request,
                      const std::vector<int64_t>& tokens, int64_t capacity, SequenceCache& cache);

/// The token that new token number `step` (from 0) of at most `limit` must be; -1: free.
int64_t forced_token(const Request& request, int64_t step, int64_t limit);

/// Takes away what the request does not allow: logits or log-probabilities become -infinity; where
/// a token is forced (not -1), all but that one, which becomes 0.
void restrict_choice(float* values, int64_t vocabulary, const Request& request, int64_t forced);

/// One more token for each sequence: logits [sequences, vocabulary].
Tensor continue_sequences(const Model& model, const std::vector<int64_t>& tokens,
                          std::vector<SequenceCache*> caches);
/// One or more tokens for each sequence: logits [all tokens, vocabulary].
Tensor extend_sequences(const Model& model, const std::vector<std::vector<int64_t>>& tokens,
                        std::vector<SequenceCache*> caches);

}  // namespace heed
