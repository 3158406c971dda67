#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/models.h"
#include "heed/tensor.h"
#include "heed/text.h"

namespace heed {

// Server ------------------------------------------------------------------------------------------

/// What a server serves, where, and to whom.
struct ServeOptions {
  /// Model folders, run folders, .gguf or .bin files; "NAME=PATH" gives the name that requests use,
  /// else it is the folder's or file's own. They are loaded by Server::start().
  std::vector<std::string> models;
  std::string tokenizer;   ///< for the models that have none with them (llama2.c's .bin)
  std::string adapter;     ///< a LoRA adapter, added to the only one of `models`
  std::string models_dir;  ///< a folder of further models, each loaded when it is first asked for
  /// "OTHER=NAME": the model NAME also answers to OTHER; "*=NAME": to any name.
  std::vector<std::string> aliases;

  /// Search indexes for /v1/search and /v1/ask; "NAME=PATH" names one, else it is the file's name.
  std::vector<std::string> indexes;
  int64_t context = 0;     ///< most tokens of a sequence, prompt and answer; 0: the models' own
  int64_t max_tokens = 0;  ///< most tokens of an answer, whatever a client asks for; 0: no limit

  std::vector<std::string> runs;  ///< run folders that the explorer page may follow
  bool page = true;               ///< the explorer page at / and what it asks under /heed/v1/

  std::string host = "127.0.0.1";     ///< an IP address or localhost; any but loopback needs a key
  int port = 8080;                    ///< 0 picks a free one
  int listen_socket = -1;             ///< a listening socket to use instead (socket activation)
  std::vector<std::string> api_keys;  ///< one of them must come with every API request
  std::vector<std::string> allowed_hosts;    ///< names in Host beyond loopback and `host`; "*": any
  std::vector<std::string> allowed_origins;  ///< pages of other origins that may use the API

  int64_t max_connections = 1024;
  int64_t queue = 256;         ///< requests under way; beyond: 429
  int64_t slots = 16;          ///< sequences of a model that decode together
  DType kv_type = DType::f32;  ///< of caches: f32, f16, bf16 or q8_0; see Model::set_kv_type()
  double timeout = 600.0;      ///< seconds of one request
  double idle_unload = 0.0;    ///< seconds without use until a model is unloaded; 0: never
  int64_t max_body_bytes = int64_t{16} << 20;
  double header_timeout = 10.0;  ///< seconds for a request's header
  double body_timeout = 60.0;    ///< and for its body

  /// Called with one JSON object per finished request, from the I/O thread. May be empty.
  std::function<void(const std::string&)> access_log;
  /// Called with events of the server, such as a model that was loaded. May be empty.
  std::function<void(const std::string&)> log;
};

/// An HTTP server for models: OpenAI's API, llama.cpp's /completion, embeddings, reranking,
/// translation, classification and more; see docs/guide/server.md. It handles no signals and may
/// run in any thread of any program.
class HEED_API Server {
 public:
  /// Throws Error of kind usage where the options make no sense.
  explicit Server(ServeOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Binds, begins to answer (503 until everything is loaded), loads the models and returns when
  /// the server is ready. Throws Error.
  void start();
  int port() const;         ///< known as soon as start() has bound it
  std::string url() const;  ///< "http://127.0.0.1:8080"
  /// Reads models_dir again and replaces loaded models by fresh copies from their files.
  void reload();
  /// Takes no more requests, lets those under way finish for at most `seconds`, and stops. True
  /// where all of them finished.
  bool stop(double seconds = 30.0);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Explorer ----------------------------------------------------------------------------------------
//
// What the explorer page asks, answered from a model: docs/formats/explorer-protocol.md.

/// A model as the explorer needs it.
struct ExplorerModel {
  std::string id;
  std::filesystem::path path;
  std::shared_ptr<const Model> model;
  Tokenizer tokenizer;  ///< empty for a model that only reads images
};
/// Opens a model folder, run folder, .gguf or .bin for an Explorer.
HEED_API ExplorerModel open_explorer_model(const std::filesystem::path& path,
                                           const std::string& id = {});

/// A contribution to a score: an embedding, an earlier head, an earlier feed-forward layer, a bias.
struct ScorePart {
  std::string name;  ///< "embed", "pos_embed", "blocks.2.attn.head.5", "blocks.2.mlp", "b_Q", …
  /// "embed", "position", "head", "attention_bias", "mlp", "norm_bias", "bias"; "other": what a
  /// layer adds behind its feed-forward part (DeBERTa's convolution); "rounding": what
  /// products with quantised weights changed by rounding their inputs to 8 bits
  std::string type;
  std::string kind = {};  ///< of a head: "self", "encoder", "decoder" or "cross"
  int64_t layer = -1;
  int64_t head = -1;
};

/// Why a head looks where it looks: its score q·k × scale as a sum over pairs of parts of the
/// residual stream, with the norms' scales held at their values.
struct ScoreExplanation {
  double score = 0;         ///< with the bias, before soft cap, mask and softmax
  double weight = 0;        ///< after them
  bool linearised = false;  ///< a model with norms after its parts: their scales are held, too
  std::vector<ScorePart> query_parts, key_parts;
  std::vector<double> values;  ///< [query_parts, key_parts]
  double bias = 0;             ///< relative positions, ALiBi
  double remainder = 0;        ///< score - Σ values - bias
};

/// Answers the explorer's requests for the models that `find` knows.
///
/// Thread safety: answer() may be called from many threads; passes run one after another.
class HEED_API Explorer {
 public:
  /// Finds a model by its id; throws Error where there is none.
  using Find = std::function<ExplorerModel(const std::string& id)>;
  struct Options {
    size_t traces = 32;                            ///< kept at a time, the last used
    std::vector<std::filesystem::path> runs = {};  ///< training runs to follow
    std::string start_text = {};                   ///< what the page shows first
    std::string start_model = {};                  ///< and the model it does so with
  };
  Explorer(std::vector<std::string> ids, Find find);
  Explorer(std::vector<std::string> ids, Find find, Options options);
  ~Explorer();
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

  struct Answer {
    int status = 200;
    std::string json;
  };
  /// One request of the protocol but /heed/v1/generate; never throws for a bad one.
  Answer answer(std::string_view method, std::string_view path, std::string_view body);
  /// /heed/v1/generate: calls `event` with the name and data of each event until it returns false.
  Answer generate(
      std::string_view body,
      const std::function<bool(std::string_view event, const std::string& json)>& event);
  /// Which models there are, where that changes.
  void set_models(std::vector<std::string> ids);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The score of one head between two positions of a text; see ScoreExplanation.
HEED_API ScoreExplanation explain_score(const ExplorerModel& model, const std::string& text,
                                        const std::string& kind, int64_t layer, int64_t head,
                                        int64_t query, int64_t key);

/// What an offline page shows, and what it opens on.
struct ExplorerFileOptions {
  std::optional<std::string> text = {};
  std::optional<std::string> pair = {};    ///< a second text, for models that read pairs
  std::optional<std::string> target = {};  ///< what the decoder reads
  std::string ask = {};                    ///< the word that a reader is asked about; empty: "it"
  std::string image = {};                  ///< bytes of a PNG, JPEG or PNM file
  std::string audio = {};                  ///< bytes of a WAV file
  std::string interventions = {};      ///< JSON list of the protocol's interventions; empty: none
  std::string kind = {};               ///< attention that is shown first; empty: the page's choice
  int64_t layer = -1, head = -1;       ///< and its layer and head; -1: the first
  std::string language = "en";         ///< "en" or "ko"; the page can switch
  int64_t budget = int64_t{24} << 20;  ///< bytes of data, about
};

/// The page with everything it asks for about one input inside: one HTML file that needs no server.
/// Throws Error where the model cannot read the input or has no such attention.
HEED_API std::string explorer_file(const ExplorerModel& model, const ExplorerFileOptions& options);

/// Attention weights [queries, keys] of one head, from wherever they come.
struct ExplorerMap {
  int64_t layer = 0;
  int64_t head = 0;
  Tensor weights;
};
/// Maps with common axes.
struct ExplorerMaps {
  std::string kind;  ///< "self", "encoder", "decoder" or "cross"
  std::vector<std::string> row_labels, column_labels;
  std::vector<ExplorerMap> maps;
};

/// The page with weights inside that no model stands behind: its map, arcs and exports. Throws
/// Error where there is no map, or labels do not fit.
HEED_API std::string explorer_file(const std::vector<ExplorerMaps>& groups,
                                   const std::string& title, const std::string& language = "en");

}  // namespace heed
