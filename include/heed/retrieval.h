#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/generate.h"
#include "heed/runtime.h"
#include "heed/text.h"

// Retrieval: documents are cut into chunks, embedded and kept in one file; questions find the
// chunks that are closest in meaning (dense), share words (lexical), or both (hybrid).

namespace heed {

// ---------------------------------------------------------------------------------------------
// Making an index

struct IndexProgress {
  int64_t files_done = 0, files = 0;
  int64_t bytes_done = 0, bytes = 0;  ///< of the files that are new or have changed
  int64_t chunks = 0;                 ///< embedded so far
};

/// How an index is made. What is not set is taken from the index where one is there, else from the
/// default named here.
struct IndexOptions {
  std::string model;                       ///< an encoder; needed for a new index
  std::string tokenizer;                   ///< empty: the one that lies with the model
  std::optional<int64_t> chunk_tokens;     ///< most tokens per chunk; 200
  std::optional<int64_t> overlap_tokens;   ///< repeated from the chunk before; 40
  std::optional<std::string> vector_type;  ///< "f32" or "int8"; f32
  /// "mean", "cls" or "pooler" (not normalised: DPR); the model's own, else mean
  std::optional<std::string> pooling;
  std::optional<std::string> query_prefix;    ///< put before questions ("query: "); empty
  std::optional<std::string> passage_prefix;  ///< put before chunks ("passage: "); empty
  /// Also build an HNSW graph, for SearchOptions::hnsw; not set: where the index has one.
  std::optional<bool> hnsw;
  int64_t max_file_bytes = int64_t{256} << 20;  ///< of files that are not tables
  std::function<void(const IndexProgress&)> progress;
  /// Called with what could not be read; the rest goes on.
  std::function<void(const std::string&)> complain;
  /// Asked between batches; true ends the run after what is done so far has been written.
  std::function<bool()> cancelled;
};

struct IndexReport {
  int64_t files = 0;         ///< new or changed, and now in the index
  int64_t unchanged = 0;     ///< files
  int64_t removed = 0;       ///< files that are gone from the given folders
  int64_t failed = 0;        ///< files and rows that could not be read
  int64_t chunks_added = 0;  ///< embedded in this run
  int64_t chunks_removed = 0;
  int64_t chunks = 0;  ///< in the index now
  double seconds = 0.0;
  bool cancelled = false;  ///< not finished: the same call goes on where it stopped
};

/// Makes the index `out` of documents, or brings it up to date: only chunks that are new are
/// embedded. `docs` names files and folders: text, Markdown, HTML, JSON lines, CSV, TSV, and PDF
/// where pdftotext is installed. Every batch is one transaction: a run that is killed at any moment
/// is gone on with by the same call, and loses or doubles nothing. Throws where `out` is no index
/// of heed's, is damaged, or was made with another model or other options.
HEED_API IndexReport build_index(const std::vector<std::string>& docs,
                                 const std::filesystem::path& out, const IndexOptions& options);

// ---------------------------------------------------------------------------------------------
// Searching

enum class SearchMode {
  dense,    ///< cosine of embeddings, exact
  lexical,  ///< BM25
  hybrid,   ///< reciprocal rank fusion of both
};
/// "dense", "lexical" or "hybrid"; kind usage for anything else.
HEED_API SearchMode parse_search_mode(std::string_view name);

struct SearchOptions {
  SearchMode mode = SearchMode::hybrid;
  int64_t top_k = 10;
  /// Dense search by the index's HNSW graph: not exact, but looks at a small part of the vectors.
  /// Worth it past about a million vectors in a process that stays.
  bool hnsw = false;
  int64_t candidates = 0;  ///< from each list, before fusing or reranking; 0: as many as are useful
};

/// A chunk that was found.
struct SearchResult {
  int64_t rank = 0;      ///< from 1
  double score = 0.0;    ///< cosine, BM25, fused, or the reranker's: higher is better
  int64_t chunk = 0;     ///< its number in the index
  std::string source;    ///< the file, as it was named
  std::string location;  ///< "row 12", "page 3"; may be empty
  std::string title;     ///< heading or title; may be empty
  std::string text;
  std::vector<TextSpan> matches;  ///< bytes of `text` that share a term with the query
  TextSpan snippet;               ///< the part of `text` around most of them
  std::optional<double> cosine;   ///< where dense search found it
  std::optional<double> bm25;     ///< where lexical search found it
};

struct IndexInfo {
  std::string model;  ///< where the encoder was when the index was made
  std::string vector_type;
  int64_t dimension = 0;
  int64_t files = 0;
  int64_t chunks = 0;
  bool hnsw = false;     ///< has a graph for approximate search
  bool complete = true;  ///< false: indexing was interrupted; run it again
};

struct OpenIndexOptions {
  std::string model = {};  ///< the encoder, where it is no longer where it was
  std::string tokenizer = {};
  std::string query_model = {};  ///< the encoder of questions, where it is another one (DPR)
  std::string reranker = {};     ///< a cross-encoder that orders the candidates; empty: none
  bool distributed = false;      ///< each rank searches a part; every rank must make the same calls
};

/// An index that is open for searching. Not for several threads at once.
class HEED_API SearchIndex {
 public:
  /// Throws kind data where the file is no index, is truncated, or does not match its checksum.
  static SearchIndex open(const std::filesystem::path& path, const OpenIndexOptions& options = {});
  SearchIndex(SearchIndex&&) noexcept;
  SearchIndex& operator=(SearchIndex&&) noexcept;
  ~SearchIndex();

  /// The best chunks for a query, best first; deterministic, whatever the number of threads and
  /// ranks.
  std::vector<SearchResult> search(std::string_view query, const SearchOptions& options = {});
  /// The chunks whose vectors have the largest products with `query`, best first.
  std::vector<SearchResult> search_vector(std::span<const float> query, int64_t top_k);
  const IndexInfo& info() const;

  struct Impl;

 private:
  explicit SearchIndex(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// ---------------------------------------------------------------------------------------------
// Answering

struct AskOptions {
  SearchOptions search{.mode = SearchMode::hybrid, .top_k = 5, .candidates = 0};
  Sampling sampling;
  int64_t max_tokens = 256;
  std::vector<std::string> stops;  ///< texts that end the answer
  /// Makes the model's prompt of the message with sources and question: a chat template. Empty: the
  /// message itself, with "Answer:" behind it.
  std::function<std::string(const std::string& message)> render;
  bool attention = false;                         ///< measure how much attention each source got
  std::function<void(std::string_view)> on_text;  ///< called with the answer as it is written
};

/// A source that stood in the prompt.
struct AnswerSource {
  int64_t number = 0;  ///< from 1, as the answer cites it
  SearchResult result;
  TextSpan tokens;  ///< of the model's input; for a FiD reader the passage's own tokens
  /// Fraction of the answer's attention, mean over layers, heads and the answer's tokens. For a FiD
  /// reader, that of the first token, with the mean over the passage's tokens instead of their sum.
  double attention = 0.0;
};

struct Answer {
  std::string text;
  std::vector<AnswerSource> sources;
  double other_attention = 0.0;  ///< on instructions, question and the answer itself
  int64_t prompt_tokens = 0, answer_tokens = 0;
  FinishReason finish = FinishReason::length;
};

/// Answers a question from an index: searches, puts the numbered sources that fit the model's
/// context into the prompt, and generates. `model` is a decoder or an encoder-decoder.
HEED_API Answer ask(SearchIndex& index, const Model& model, const Tokenizer& tokenizer,
                    std::string_view question, const AskOptions& options = {});

/// AskOptions::render for a chat model: the message as what the user says, in the model's template.
HEED_API std::function<std::string(const std::string& message)> chat_renderer(
    const ChatTemplate& chat);

/// The message that ask() makes of sources and question; Korean for a question in Korean.
HEED_API std::string rag_message(const std::vector<SearchResult>& sources,
                                 std::string_view question);

// ---------------------------------------------------------------------------------------------
// Fusion-in-Decoder (Izacard and Grave 2021): an encoder-decoder reads every passage by itself, and
// its decoder attends to all of them at once. The cost grows linearly with the passages.

struct FidPassage {
  std::string title;
  std::string text;
};

/// What a FiD reader reads for one question: "question: … title: … context: …" of every passage,
/// each cut to `passage_tokens` tokens. ModelInput::passages is their number.
HEED_API ModelInput fid_input(const Tokenizer& tokenizer, std::string_view question,
                              const std::vector<FidPassage>& passages,
                              int64_t passage_tokens = 250);

/// A score per passage of one question: the cross-attention of the first generated token, mean over
/// layers, heads and the passage's tokens.
HEED_API std::vector<double> fid_passage_scores(const Model& model, const ModelInput& input);

/// Answers a question from an index with a FiD reader. AnswerSource::attention is the passage's
/// score; AskOptions::render is not used.
HEED_API Answer ask_fid(SearchIndex& index, const Model& reader, const Tokenizer& tokenizer,
                        std::string_view question, const AskOptions& options = {},
                        int64_t passage_tokens = 250);

// ---------------------------------------------------------------------------------------------
// Retrieval-augmented generation as in Lewis et al. 2020: a model of type rag

/// Answers a question with a RAG (RagToken or RagSequence): the vector of its question encoder
/// finds options.search.top_k documents in an index of DPR vectors; each stands before the
/// question, and the generator's answer is marginalised over them by beam search.
/// AnswerSource::attention is the probability of the document. Sampling, stops and
/// AskOptions::render are not used.
HEED_API Answer ask_rag(SearchIndex& index, const Model& model, const Tokenizer& question_tokenizer,
                        const Tokenizer& generator_tokenizer, std::string_view question,
                        const AskOptions& options = {}, int64_t num_beams = 4);

}  // namespace heed
