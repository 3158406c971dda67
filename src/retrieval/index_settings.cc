#include "retrieval/index_settings.h"

#include <algorithm>

#include "base/check.h"
#include "retrieval/chunks.h"

namespace heed {
namespace {

/// Throws where an option was given and the index has been made with another value.
template <class T>
void check_same_setting(const std::optional<T>& given, const T& stored, const char* option,
                        const std::filesystem::path& path) {
  if (given && *given != stored) {
    fail(ErrorKind::usage, path.native(),
         "was made with {} {}, not {}; leave the option out, or make a new index", option, stored,
         *given);
  }
}

}  // namespace

void check_settings(const IndexOptions& options, const IndexSettings& stored,
                    const std::filesystem::path& path) {
  check_same_setting(options.chunk_tokens, stored.chunk_tokens, "chunk_tokens", path);
  check_same_setting(options.overlap_tokens, stored.overlap_tokens, "overlap", path);
  check_same_setting(options.vector_type, stored.vector_type, "vectors", path);
  check_same_setting(options.pooling, stored.pooling, "pooling", path);
  check_same_setting(options.query_prefix, stored.query_prefix, "query_prefix", path);
  check_same_setting(options.passage_prefix, stored.passage_prefix, "passage_prefix", path);
}

IndexSettings new_settings(const IndexOptions& options, const Embedder& embedder) {
  IndexSettings settings;
  settings.model = std::filesystem::weakly_canonical(options.model).native();
  settings.model_fingerprint = embedder.fingerprint();
  settings.dimension = embedder.dimension();
  settings.vector_type = options.vector_type.value_or(settings.vector_type);
  settings.pooling = embedder.pooling();
  settings.query_prefix = options.query_prefix.value_or("");
  settings.passage_prefix = options.passage_prefix.value_or("");
  settings.chunk_tokens = options.chunk_tokens.value_or(settings.chunk_tokens);
  settings.overlap_tokens =
      options.overlap_tokens.value_or(std::min(settings.overlap_tokens, settings.chunk_tokens / 4));
  if (!ChunkOptions{settings.chunk_tokens, settings.overlap_tokens}.make_sense()) {
    fail(ErrorKind::usage, "index",
         "{} tokens per chunk with an overlap of {} make no sense; at least 8, and less overlap "
         "than that",
         settings.chunk_tokens, settings.overlap_tokens);
  }
  return settings;
}

}  // namespace heed
