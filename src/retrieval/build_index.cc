#include <sys/stat.h>

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "data/block_reader.h"
#include "heed/retrieval.h"
#include "retrieval/embedder.h"
#include "retrieval/index_settings.h"
#include "retrieval/index_store.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBatchChunks = 128;  // embedded and written together
constexpr size_t kBatchFiles = 256;   // small or bad files between two writes

/// Size and time of the last change of a file.
StoredFile look_at(const DocumentFile& file) {
  struct stat status {};
  check_data(stat(file.path.c_str(), &status) == 0 && S_ISREG(status.st_mode), file.name,
             "is not a regular file");
  StoredFile result;
  result.path = file.path.native();
  result.name = file.name;
  result.size = status.st_size;
  result.modified = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  return result;
}

uint64_t content_hash(const fs::path& path) {
  BlockReader reader(path);
  uint64_t hash = 0;
  std::string block;
  while (reader.append(block)) {
    hash = fingerprint_of(block, hash);
    block.clear();
  }
  return hash;
}

/// A file whose chunks are on their way into the index.
struct OpenFile {
  StoredFile stored;
  std::multimap<uint64_t, StoredChunk> old;  // chunks that the new content has not shown yet
  int64_t chunks = 0;                        // so far
  bool marked = false;                       // the index knows that it is not complete
};

struct PendingChunk {
  std::shared_ptr<OpenFile> file;
  int64_t ordinal = 0;
  Chunk chunk;
  int64_t id = 0;  // of a chunk that only moved; 0: new
};

class Builder {
 public:
  Builder(IndexStore store, const Embedder& embedder, const IndexOptions& options)
      : store_(std::move(store)),
        embedder_(embedder),
        options_(options),
        had_graph_(store_.has_graph()) {}

  IndexReport run(const std::vector<std::string>& docs, const std::vector<DocumentFile>& files) {
    const double start = seconds_now();
    remove_vanished(docs, files);
    const std::vector<StoredFile> changed = find_changed(files);
    progress_.files = static_cast<int64_t>(changed.size());
    for (const StoredFile& file : changed) {
      progress_.bytes += file.size;
    }
    for (const StoredFile& file : changed) {
      if (report_.cancelled) {
        break;
      }
      const int64_t before = progress_.bytes_done;
      index_file(file);
      ++progress_.files_done;
      progress_.bytes_done = before + file.size;
      show_progress(0);
    }
    flush();
    add_graph();
    if (!report_.cancelled && (broken_ || !store_.sealed())) {
      store_.seal();
    }
    report_.chunks = store_.chunks();
    report_.seconds = seconds_now() - start;
    return report_;
  }

 private:
  /// The graph of all vectors, where one is wanted and the one that is there is gone or missing.
  void add_graph() {
    if (report_.cancelled || !options_.hnsw.value_or(had_graph_) || store_.has_graph()) {
      return;
    }
    const HnswGraph graph = HnswGraph::build(store_.load_vectors(), {}, options_.cancelled);
    if (options_.cancelled && options_.cancelled()) {
      report_.cancelled = true;
      return;
    }
    if (graph.nodes() > 0) {
      Transaction transaction(store_.database());
      begin_change();
      store_.put_graph(graph);
      transaction.commit();
    }
  }

  /// Begins a transaction whose changes the seal will not cover until the end.
  void begin_change() {
    if (!broken_) {
      store_.break_seal();
      broken_ = true;
    }
  }

  /// Files that the index has of one of the folders (or has by name) and that are no longer there.
  void remove_vanished(const std::vector<std::string>& docs,
                       const std::vector<DocumentFile>& files) {
    std::vector<fs::path> there, roots;
    for (const DocumentFile& file : files) {
      there.push_back(file.path);
    }
    std::sort(there.begin(), there.end());
    for (const std::string& name : docs) {
      roots.push_back(fs::weakly_canonical(name));
    }
    std::vector<int64_t> gone;
    store_.for_each_file([&](const StoredFile& file) {
      const fs::path path(file.path);
      const bool inside = std::any_of(roots.begin(), roots.end(), [&](const fs::path& root) {
        return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first ==
               root.end();
      });
      if (inside && !std::binary_search(there.begin(), there.end(), path)) {
        gone.push_back(file.id);
      }
    });
    if (gone.empty()) {
      return;
    }
    Transaction transaction(store_.database());
    begin_change();
    for (const int64_t id : gone) {
      report_.chunks_removed += store_.remove_file(id);
      ++report_.removed;
    }
    transaction.commit();
  }

  std::vector<StoredFile> find_changed(const std::vector<DocumentFile>& files) {
    std::vector<StoredFile> changed;
    for (const DocumentFile& file : files) {
      try {
        StoredFile now = look_at(file);
        const std::optional<StoredFile> before = store_.find_file(now.path);
        if (before && before->complete && before->size == now.size &&
            before->modified == now.modified) {
          ++report_.unchanged;
          continue;
        }
        now.id = before ? before->id : 0;
        changed.push_back(std::move(now));
      } catch (const Error& error) {
        complain(error);
      }
    }
    return changed;
  }

  void complain(const Error& error) {
    if (error.kind() != ErrorKind::data) {
      throw error;
    }
    ++report_.failed;
    if (options_.complain) {
      options_.complain(error.what());
    }
  }

  void index_file(const StoredFile& found) {
    auto file = std::make_shared<OpenFile>();
    file->stored = found;
    try {
      file->stored.hash = content_hash(found.path);
      if (touched_only(*file)) {
        ++report_.unchanged;
        return;
      }
      if (found.id != 0) {
        file->old = store_.chunks_of(found.id);
      }
      DocumentLimits limits;
      limits.max_bytes = options_.max_file_bytes;
      const ChunkOptions cut{store_.settings().chunk_tokens, store_.settings().overlap_tokens};
      const int64_t before = progress_.bytes_done;
      int64_t read = 0;  // bytes of the sections so far
      report_.failed += read_document(
          found.path, limits,
          [&](const Section& section) {
            if (report_.cancelled) {
              return;
            }
            for (Chunk& chunk : chunk_section(section, embedder_.tokenizer(), cut)) {
              progress_.bytes_done = before + std::min(found.size, read + chunk.span.end);
              add(file, std::move(chunk));
            }
            read += static_cast<int64_t>(section.text.size());
          },
          [&](const std::string& what) {
            if (options_.complain) {
              options_.complain(what);
            }
          });
    } catch (const Error& error) {
      complain(error);
      return;
    }
    if (!report_.cancelled) {
      open_.push_back(file);
      if (open_.size() >= kBatchFiles) {
        flush();
      }
    }
  }

  /// Whether a known file has another date but the same content; the index is told the date.
  bool touched_only(const OpenFile& file) {
    const std::optional<StoredFile> before = store_.find_file(file.stored.path);
    if (!before || !before->complete || before->hash != file.stored.hash) {
      return false;
    }
    StoredFile now = file.stored;
    now.complete = true;
    Transaction transaction(store_.database());
    begin_change();
    store_.put_file(now);
    transaction.commit();
    return true;
  }

  void add(const std::shared_ptr<OpenFile>& file, Chunk chunk) {
    const int64_t ordinal = file->chunks++;
    const auto known = file->old.find(chunk.hash);
    PendingChunk pending{file, ordinal, std::move(chunk), 0};
    if (known != file->old.end()) {
      const StoredChunk stored = known->second;
      file->old.erase(known);
      if (stored.ordinal == ordinal && stored.span == pending.chunk.span &&
          stored.location == pending.chunk.location) {
        return;
      }
      pending.id = stored.id;
    } else {
      ++fresh_;
    }
    pending_.push_back(std::move(pending));
    if (fresh_ >= kBatchChunks || pending_.size() >= 64 * kBatchChunks) {
      flush();
    }
  }

  /// Embeds what is new and writes everything that is pending in one transaction.
  void flush() {
    std::vector<std::string> texts;
    for (const PendingChunk& pending : pending_) {
      if (pending.id == 0) {
        const std::string& title = pending.chunk.title;
        texts.push_back(store_.settings().passage_prefix + title + (title.empty() ? "" : "\n") +
                        pending.chunk.text);
      }
    }
    const std::vector<float> vectors = embedder_.embed(texts);
    if (!pending_.empty() || !open_.empty()) {
      write(vectors);
    }
    report_.chunks_added += static_cast<int64_t>(texts.size());
    pending_.clear();
    open_.clear();
    fresh_ = 0;
    if (options_.cancelled && options_.cancelled()) {
      report_.cancelled = true;
    }
    show_progress(static_cast<int64_t>(texts.size()));
  }

  void write(const std::vector<float>& vectors) {
    Transaction transaction(store_.database());
    begin_change();
    std::vector<int64_t> ids;
    for (const PendingChunk& pending : pending_) {
      StoredFile& file = pending.file->stored;
      if (!pending.file->marked) {
        file.id = store_.put_file(file);
        pending.file->marked = true;
      }
      if (pending.id != 0) {
        store_.move_chunk(pending.id, pending.ordinal, pending.chunk);
      } else {
        ids.push_back(store_.add_chunk(file.id, pending.ordinal, pending.chunk));
      }
    }
    store_.add_vectors(ids, vectors.data());
    for (const std::shared_ptr<OpenFile>& file : open_) {
      std::vector<int64_t> left;
      for (const auto& [hash, chunk] : file->old) {
        left.push_back(chunk.id);
      }
      report_.chunks_removed += static_cast<int64_t>(left.size());
      store_.remove_chunks(std::move(left));
      file->stored.complete = true;
      file->stored.id = store_.put_file(file->stored);
      ++report_.files;
    }
    transaction.commit();
  }

  void show_progress(int64_t chunks) {
    progress_.chunks += chunks;
    if (options_.progress) {
      options_.progress(progress_);
    }
  }

  IndexStore store_;
  const Embedder& embedder_;
  const IndexOptions& options_;
  bool had_graph_;
  IndexReport report_;
  IndexProgress progress_;
  std::vector<PendingChunk> pending_;
  std::vector<std::shared_ptr<OpenFile>> open_;  // finished, not written yet
  size_t fresh_ = 0;                             // of pending_
  bool broken_ = false;                          // the seal, by this run
};

}  // namespace

IndexReport build_index(const std::vector<std::string>& docs, const fs::path& out,
                        const IndexOptions& options) {
  if (options.vector_type && *options.vector_type != "f32" && *options.vector_type != "int8") {
    fail(ErrorKind::usage, "index", "there are vectors in f32 and int8, not in {}",
         *options.vector_type);
  }
  if (out.empty()) {
    fail(ErrorKind::usage, "index", "the index file has no name (out)");
  }
  const std::vector<DocumentFile> files = expand_documents(docs);
  if (!fs::exists(out)) {
    if (options.model.empty()) {
      fail(ErrorKind::usage, "index", "a new index needs the folder of an encoder (model)");
    }
    const Embedder embedder(options.model, options.tokenizer, options.pooling.value_or(""), true);
    return Builder(IndexStore::create(out, new_settings(options, embedder)), embedder, options)
        .run(docs, files);
  }
  IndexStore store = IndexStore::open(out, true);
  const IndexSettings& stored = store.settings();
  check_settings(options, stored, out);
  const Embedder embedder(options.model.empty() ? stored.model : options.model, options.tokenizer,
                          stored.pooling, true);
  if (embedder.fingerprint() != stored.model_fingerprint) {
    fail(ErrorKind::usage, out.native(),
         "was made with another model ({}); use that one, or make a new index", stored.model);
  }
  store.check_dimension(embedder.dimension());
  return Builder(std::move(store), embedder, options).run(docs, files);
}

}  // namespace heed
