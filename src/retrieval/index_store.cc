#include "retrieval/index_store.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/check.h"
#include "base/checksum.h"
#include "base/file.h"
#include "base/printable.h"
#include "heed/pipelines.h"
#include "retrieval/index_schema.h"
#include "retrieval/seal.h"
#include "retrieval/terms.h"

namespace heed {
namespace {

constexpr int64_t kGraphRows = 65536;  // rows of a graph per block

template <class T>
std::span<const std::byte> bytes_of(std::span<const T> values) {
  return std::as_bytes(values);
}

/// A blob as numbers; throws where its size does not fit.
template <class T>
std::vector<T> numbers_of(std::span<const std::byte> blob, const std::string& file) {
  check_data(blob.size() % sizeof(T) == 0, file, "is damaged: a block of vectors has {} bytes",
             blob.size());
  std::vector<T> numbers(blob.size() / sizeof(T));
  std::copy(blob.begin(), blob.end(), std::as_writable_bytes(std::span(numbers)).begin());
  return numbers;
}

uint64_t block_hash(std::span<const std::byte> ids, std::span<const std::byte> scales,
                    std::span<const std::byte> rows) {
  return fingerprint_of(
      rows.data(), rows.size(),
      fingerprint_of(scales.data(), scales.size(), fingerprint_of(ids.data(), ids.size(), 0)));
}

int64_t number_of(const std::string& text, const std::string& file, const char* key) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check_data(error == std::errc() && end == text.data() + text.size() && value >= 0, file,
             "is damaged: {} is {}", key, printable(text, 80));
  return value;
}

bool is_pooling(std::string_view name) {
  constexpr std::array kAll = {Pooling::mean, Pooling::cls, Pooling::max, Pooling::pooler};
  return std::any_of(kAll.begin(), kAll.end(),
                     [&](Pooling pooling) { return name == name_of(pooling); });
}

StoredFile file_row(const Statement& row) {
  return {row.integer(0),     std::string(row.text(1)), std::string(row.text(2)),
          row.integer(3),     row.integer(4),           static_cast<uint64_t>(row.integer(5)),
          row.integer(6) != 0};
}

}  // namespace

IndexStore IndexStore::create(const std::filesystem::path& path, const IndexSettings& settings) {
  // In memory until the tables are there: no half-made file is left.
  const Database database(":memory:", Database::Mode::create);
  database.execute("PRAGMA page_size = 8192");
  database.execute(fmt::format("BEGIN; PRAGMA application_id = {}; PRAGMA user_version = {}",
                               kIndexApplication, kIndexVersion));
  create_tables(database);
  Statement put(database, "INSERT INTO meta VALUES(?, ?)");
  const auto add = [&](std::string_view key, const std::string& value) {
    put.bind(key, std::string_view(value)).run();
  };
  add("model", settings.model);
  add("model_fingerprint", settings.model_fingerprint);
  add("dimension", std::to_string(settings.dimension));
  add("vector_type", settings.vector_type);
  add("pooling", settings.pooling);
  add("query_prefix", settings.query_prefix);
  add("passage_prefix", settings.passage_prefix);
  add("chunk_tokens", std::to_string(settings.chunk_tokens));
  add("overlap_tokens", std::to_string(settings.overlap_tokens));
  database.execute("COMMIT");
  write_file_atomically(path, database.bytes());
  return open(path, true);
}

IndexStore IndexStore::open(const std::filesystem::path& path, bool writable) {
  const bool sealed = check_index_file(path) == SealState::sealed;
  // An unfinished file may have a transaction to roll back, which is a change.
  IndexStore store(std::make_unique<Database>(
      path, writable || !sealed ? Database::Mode::write : Database::Mode::read));
  store.sealed_ = sealed;
  check_tables(*store.database_);
  if (!sealed) {
    const std::string state = store.database_->text("PRAGMA quick_check(1)");
    check_data(state == "ok", path.native(), "is damaged ({}); make it again with `heed index`",
               state);
  }
  if (writable) {
    store.database_->execute("PRAGMA synchronous = FULL");
  }
  store.database_->execute("PRAGMA mmap_size = 1073741824");
  store.read_settings();
  return store;
}

void IndexStore::read_settings() {
  const std::string& file = database_->path().native();
  Statement get(*database_, "SELECT value FROM meta WHERE key = ?");
  const auto text = [&](std::string_view key) {
    get.bind(key);
    check_data(get.next(), file, "is damaged: {} is missing; make it again with `heed index`", key);
    return std::string(get.text(0));
  };
  settings_.model = text("model");
  settings_.model_fingerprint = text("model_fingerprint");
  settings_.dimension = number_of(text("dimension"), file, "dimension");
  settings_.vector_type = text("vector_type");
  settings_.pooling = text("pooling");
  settings_.query_prefix = text("query_prefix");
  settings_.passage_prefix = text("passage_prefix");
  settings_.chunk_tokens = number_of(text("chunk_tokens"), file, "chunk_tokens");
  settings_.overlap_tokens = number_of(text("overlap_tokens"), file, "overlap_tokens");
  constexpr int64_t kMostNumbers = 1 << 20;
  check_data(settings_.dimension > 0 && settings_.dimension <= kMostNumbers &&
                 (settings_.vector_type == "f32" || settings_.vector_type == "int8"),
             file, "is damaged: vectors of {} {}", settings_.dimension,
             printable(settings_.vector_type, 80));
  check_data(is_pooling(settings_.pooling), file, "is damaged: {} is {}", "pooling",
             printable(settings_.pooling, 80));
  check_data(ChunkOptions{settings_.chunk_tokens, settings_.overlap_tokens}.make_sense(), file,
             "is damaged: {} tokens per chunk with an overlap of {}", settings_.chunk_tokens,
             settings_.overlap_tokens);
}

void IndexStore::check_dimension(int64_t of_encoder) const {
  check_data(settings_.dimension == of_encoder, database_->path().native(),
             "is damaged: its vectors have {} numbers, those of its encoder {}",
             settings_.dimension, of_encoder);
}

int64_t IndexStore::files() const { return database_->integer("SELECT count(*) FROM file"); }
int64_t IndexStore::chunks() const { return database_->integer("SELECT count(*) FROM chunk"); }

std::optional<StoredFile> IndexStore::find_file(const std::string& path) const {
  Statement get(*database_,
                "SELECT id, path, name, size, modified, hash, complete FROM file WHERE path = ?");
  get.bind(std::string_view(path));
  return get.next() ? std::optional(file_row(get)) : std::nullopt;
}

void IndexStore::for_each_file(const std::function<void(const StoredFile&)>& visit) const {
  Statement get(*database_, "SELECT id, path, name, size, modified, hash, complete FROM file");
  while (get.next()) {
    visit(file_row(get));
  }
}

std::multimap<uint64_t, StoredChunk> IndexStore::chunks_of(int64_t file) const {
  Statement get(*database_,
                "SELECT hash, id, ordinal, first, last, location FROM chunk WHERE file = ? "
                "ORDER BY ordinal");
  get.bind(file);
  std::multimap<uint64_t, StoredChunk> chunks;
  while (get.next()) {
    chunks.emplace(static_cast<uint64_t>(get.integer(0)),
                   StoredChunk{get.integer(1),
                               get.integer(2),
                               {get.integer(3), get.integer(4)},
                               std::string(get.text(5))});
  }
  return chunks;
}

void IndexStore::break_seal() const {
  heed::break_seal(*database_);
  if (has_graph()) {  // of vectors that are about to change
    database_->execute("DROP TABLE hnsw");
  }
}

int64_t IndexStore::put_file(const StoredFile& file) const {
  Statement put(*database_, file.id == 0
                                ? "INSERT INTO file(path, name, size, modified, hash, complete) "
                                  "VALUES(?, ?, ?, ?, ?, ?)"
                                : "UPDATE file SET path = ?, name = ?, size = ?, modified = ?, "
                                  "hash = ?, complete = ? WHERE id = ?");
  const std::string_view path = file.path;
  const std::string_view name = file.name;
  const auto hash = static_cast<int64_t>(file.hash);
  const int64_t complete = file.complete ? 1 : 0;
  if (file.id == 0) {
    put.bind(path, name, file.size, file.modified, hash, complete).run();
    return database_->last_row_id();
  }
  put.bind(path, name, file.size, file.modified, hash, complete, file.id).run();
  return file.id;
}

int64_t IndexStore::remove_file(int64_t id) const {
  std::vector<int64_t> chunks;
  for (const auto& [hash, chunk] : chunks_of(id)) {
    chunks.push_back(chunk.id);
  }
  const auto count = static_cast<int64_t>(chunks.size());
  remove_chunks(std::move(chunks));
  Statement(*database_, "DELETE FROM file WHERE id = ?").bind(id).run();
  return count;
}

int64_t IndexStore::add_chunk(int64_t file, int64_t ordinal, const Chunk& chunk) const {
  Statement put(*database_,
                "INSERT INTO chunk(file, ordinal, location, first, last, title, text, hash) "
                "VALUES(?, ?, ?, ?, ?, ?, ?, ?)");
  put.bind(file, ordinal, std::string_view(chunk.location), chunk.span.begin, chunk.span.end,
           std::string_view(chunk.title), std::string_view(chunk.text),
           static_cast<int64_t>(chunk.hash))
      .run();
  const int64_t id = database_->last_row_id();
  const std::string title = term_text(chunk.title);
  const std::string body = term_text(chunk.text);
  Statement(*database_, "INSERT INTO lexical(rowid, title, body) VALUES(?, ?, ?)")
      .bind(id, std::string_view(title), std::string_view(body))
      .run();
  return id;
}

void IndexStore::move_chunk(int64_t id, int64_t ordinal, const Chunk& chunk) const {
  Statement(*database_,
            "UPDATE chunk SET ordinal = ?, location = ?, first = ?, last = ? WHERE id = ?")
      .bind(ordinal, std::string_view(chunk.location), chunk.span.begin, chunk.span.end, id)
      .run();
}

void IndexStore::add_vectors(std::span<const int64_t> ids, const float* vectors) const {
  if (ids.empty()) {
    return;
  }
  const int64_t dim = settings_.dimension;
  const size_t numbers = ids.size() * static_cast<size_t>(dim);
  std::vector<float> scales;
  std::vector<int8_t> rounded;
  std::span<const std::byte> rows = bytes_of(std::span(vectors, numbers));
  if (settings_.type() == VectorType::int8) {
    rounded.resize(numbers);
    for (size_t i = 0; i < ids.size(); ++i) {
      const size_t at = i * static_cast<size_t>(dim);
      scales.push_back(quantize_vector(vectors + at, dim, rounded.data() + at));
    }
    rows = bytes_of(std::span<const int8_t>(rounded));
  }
  const auto id_bytes = bytes_of(ids);
  const auto scale_bytes = bytes_of(std::span<const float>(scales));
  Statement(*database_, "INSERT INTO vectors(id, ids, scales, rows, hash) VALUES(?, ?, ?, ?, ?)")
      .bind(ids.front(), id_bytes, scale_bytes, rows,
            static_cast<int64_t>(block_hash(id_bytes, scale_bytes, rows)))
      .run();
}

void IndexStore::remove_chunks(std::vector<int64_t> ids) const {
  std::sort(ids.begin(), ids.end());
  Statement get(*database_, "SELECT title, text FROM chunk WHERE id = ?");
  Statement forget(*database_,
                   "INSERT INTO lexical(lexical, rowid, title, body) VALUES('delete', ?, ?, ?)");
  Statement remove(*database_, "DELETE FROM chunk WHERE id = ?");
  for (const int64_t id : ids) {
    get.bind(id);
    if (get.next()) {
      const std::string title = term_text(get.text(0));
      const std::string body = term_text(get.text(1));
      forget.bind(id, std::string_view(title), std::string_view(body)).run();
    }
    get.reset();
    remove.bind(id).run();
  }
  kill_vectors(ids);
}

/// Marks vectors as deleted, and drops a block when none is left. Ids must be sorted.
void IndexStore::kill_vectors(std::span<const int64_t> ids) const {
  const std::string& file = database_->path().native();
  Statement find(
      *database_,
      "SELECT id, ids, scales, rows FROM vectors WHERE id <= ? ORDER BY id DESC LIMIT 1");
  Statement update(*database_, "UPDATE vectors SET ids = ?, hash = ? WHERE id = ?");
  Statement drop(*database_, "DELETE FROM vectors WHERE id = ?");
  for (size_t i = 0; i < ids.size();) {
    find.bind(ids[i]);
    check_data(find.next(), file, "is damaged: chunk {} has no vector", ids[i]);
    const int64_t block = find.integer(0);
    std::vector<int64_t> members = numbers_of<int64_t>(find.blob(1), file);
    check_data(!members.empty(), file, "is damaged: a block of vectors has {} bytes", 0);
    // A block's ids ascend, and so do these: all that belong to this block come one after another.
    const int64_t last = *std::max_element(members.begin(), members.end());
    const size_t before = i;
    for (; i < ids.size() && (i == before || ids[i] <= last); ++i) {
      std::replace(members.begin(), members.end(), ids[i], int64_t{0});
    }
    if (std::count(members.begin(), members.end(), 0) == static_cast<int64_t>(members.size())) {
      find.reset();
      drop.bind(block).run();
      continue;
    }
    const auto bytes = bytes_of(std::span<const int64_t>(members));
    const auto hash = static_cast<int64_t>(block_hash(bytes, find.blob(2), find.blob(3)));
    find.reset();
    update.bind(bytes, hash, block).run();
  }
}

bool IndexStore::has_graph() const {
  return database_->integer("SELECT count(*) FROM sqlite_schema WHERE name = 'hnsw'") > 0;
}

void IndexStore::put_graph(const HnswGraph& graph) const {
  create_graph_table(*database_);
  Statement put(*database_, "INSERT INTO hnsw VALUES(?, ?, ?, ?)");
  for (int64_t begin = 0; begin < graph.nodes(); begin += kGraphRows) {
    const std::vector<int32_t> numbers =
        graph.pack(begin, std::min(graph.nodes(), begin + kGraphRows));
    const auto bytes = bytes_of(std::span<const int32_t>(numbers));
    const auto hash = static_cast<int64_t>(fingerprint_of(bytes.data(), bytes.size(), 0));
    put.bind(begin, graph.neighbors(), bytes, hash).run();
  }
}

HnswGraph IndexStore::load_graph(int64_t vectors) const {
  const std::string& file = database_->path().native();
  Statement get(*database_, "SELECT links, hash, neighbors FROM hnsw ORDER BY first");
  std::vector<std::vector<int32_t>> blocks;
  int64_t neighbors = 0;
  while (get.next()) {
    const std::span<const std::byte> bytes = get.blob(0);
    check_data(
        static_cast<int64_t>(fingerprint_of(bytes.data(), bytes.size(), 0)) == get.integer(1), file,
        "is damaged: the graph of its vectors does not fit them; index again");
    blocks.push_back(numbers_of<int32_t>(bytes, file));
    neighbors = get.integer(2);
  }
  return HnswGraph::unpack(blocks, kGraphRows, vectors, neighbors, file);
}

void IndexStore::seal() const { write_seal(*database_); }

VectorTable IndexStore::load_vectors(int64_t part, int64_t parts) const {
  const std::string& file = database_->path().native();
  VectorTable table(settings_.type(), settings_.dimension);
  const int64_t row_bytes =
      settings_.dimension * (settings_.type() == VectorType::f32 ? int64_t{sizeof(float)} : 1);
  const auto file_bytes = static_cast<int64_t>(std::filesystem::file_size(database_->path()));
  table.reserve(std::min(chunks(), file_bytes / row_bytes) / parts + 1);
  Statement get(*database_, "SELECT ids, scales, rows, hash FROM vectors ORDER BY id");
  for (int64_t block = 0; get.next(); ++block) {
    if (block % parts != part) {
      continue;
    }
    check_data(
        static_cast<int64_t>(block_hash(get.blob(0), get.blob(1), get.blob(2))) == get.integer(3),
        file, "is damaged: a block of vectors does not match its checksum; make it again");
    const std::vector<int64_t> ids = numbers_of<int64_t>(get.blob(0), file);
    const std::vector<float> scales = numbers_of<float>(get.blob(1), file);
    const std::span<const std::byte> rows = get.blob(2);
    check_data(table.fits(ids, scales, rows), file,
               "is damaged: {} vectors of {} numbers do not fit {} bytes", ids.size(),
               settings_.dimension, rows.size());
    table.append(ids, scales, rows);
  }
  return table;
}

}  // namespace heed
