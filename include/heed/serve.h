#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/tensor.h"

namespace heed {

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

  /// Search indexes for /v1/search and /v1/ask; "NAME=FILE" names one, else it is the file's name.
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

}  // namespace heed
