#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "retrieval/chunks.h"
#include "retrieval/database.h"
#include "retrieval/hnsw.h"
#include "retrieval/vectors.h"

namespace heed {

/// What an index was made with; must be the same for everything in it.
struct IndexSettings {
  std::string model;              ///< path, where it was
  std::string model_fingerprint;  ///< of weights, configuration and tokenizer
  int64_t dimension = 0;
  std::string vector_type = "f32";
  std::string pooling = "mean";
  std::string query_prefix, passage_prefix;
  int64_t chunk_tokens = 200;
  int64_t overlap_tokens = 40;

  VectorType type() const { return vector_type == "int8" ? VectorType::int8 : VectorType::f32; }
};

/// A file as the index knows it.
struct StoredFile {
  int64_t id = 0;
  std::string path, name;
  int64_t size = 0;
  int64_t modified = 0;   ///< nanoseconds
  uint64_t hash = 0;      ///< of the content
  bool complete = false;  ///< all of its chunks are there
};

/// A chunk as the index knows it, without its text.
struct StoredChunk {
  int64_t id = 0;
  int64_t ordinal = 0;
  TextSpan span;
  std::string location;
};

/// The tables of an index file. docs/formats/search-index.md describes them.
class IndexStore {
 public:
  /// Makes a new file; fails where there is one.
  static IndexStore create(const std::filesystem::path& path, const IndexSettings& settings);
  /// Opens a checked file for reading, or for changes.
  static IndexStore open(const std::filesystem::path& path, bool writable);

  const Database& database() const { return *database_; }
  const IndexSettings& settings() const { return settings_; }
  bool sealed() const { return sealed_; }
  /// Throws kind data where the index's own encoder has vectors of another size than the index.
  void check_dimension(int64_t of_encoder) const;

  int64_t files() const;
  int64_t chunks() const;

  std::optional<StoredFile> find_file(const std::string& path) const;
  void for_each_file(const std::function<void(const StoredFile&)>& visit) const;
  /// Chunks of a file by the hash of their title and text.
  std::multimap<uint64_t, StoredChunk> chunks_of(int64_t file) const;

  // Changes; within a transaction.
  void break_seal() const;
  /// Inserts the file where its id is 0, else updates it; returns its id.
  int64_t put_file(const StoredFile& file) const;
  /// Removes the file and its chunks; returns how many there were.
  int64_t remove_file(int64_t id) const;
  /// Adds a chunk to the tables; its vector is to follow with add_vectors().
  int64_t add_chunk(int64_t file, int64_t ordinal, const Chunk& chunk) const;
  void move_chunk(int64_t id, int64_t ordinal, const Chunk& chunk) const;
  /// One block with the vectors [ids.size(), dimension] of new chunks, ids ascending.
  void add_vectors(std::span<const int64_t> ids, const float* vectors) const;
  void remove_chunks(std::vector<int64_t> ids) const;

  /// Stores the graph of all vectors; break_seal() removes it again.
  void put_graph(const HnswGraph& graph) const;
  bool has_graph() const;
  /// The graph of the vectors that load_vectors() gives. Throws where it is damaged.
  HnswGraph load_graph(int64_t vectors) const;

  /// After all changes: the checksum over the whole file.
  void seal() const;

  /// Loads the blocks whose number modulo `parts` is `part`. Throws where one does not match its
  /// checksum.
  VectorTable load_vectors(int64_t part = 0, int64_t parts = 1) const;

 private:
  explicit IndexStore(std::unique_ptr<Database> database) : database_(std::move(database)) {}
  void read_settings();
  void kill_vectors(std::span<const int64_t> ids) const;

  std::unique_ptr<Database> database_;
  IndexSettings settings_;
  bool sealed_ = false;
};

}  // namespace heed
