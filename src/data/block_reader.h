#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "io/gzip.h"

namespace heed {

/// A regular file from its beginning to its end in blocks: constant memory for a file of any size.
/// Gzipped files are decompressed on the fly.
class BlockReader {
 public:
  explicit BlockReader(const std::filesystem::path& path);
  ~BlockReader();
  BlockReader(const BlockReader&) = delete;
  BlockReader& operator=(const BlockReader&) = delete;

  /// Appends the next block to `buffer`; false at the end. A byte order mark at the beginning is
  /// left out.
  bool append(std::string& buffer);
  const std::string& file() const { return file_; }
  int64_t done() const { return done_; }  ///< bytes of the file so far

 private:
  void read_block(std::string& buffer);
  void decompress_block(std::string& buffer);

  std::string file_;
  int descriptor_ = -1;
  int64_t done_ = 0;
  bool begun_ = false;
  std::unique_ptr<GzipReader> gzip_;
  std::string packed_;  // read, not yet unpacked
};

/// Lines of UTF-8 text without their ends (LF or CRLF), with their numbers.
class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path) : reader_(path) {}

  /// The next line, valid until the next call; false at the end. Throws with the line's number
  /// where it is not UTF-8 or longer than 64 MiB.
  bool next(std::string_view& line);
  int64_t line() const { return line_; }  ///< number of the last line given, from 1
  std::string where() const;              ///< "file:line" for messages
  int64_t done() const { return reader_.done(); }

 private:
  BlockReader reader_;
  std::string buffer_;
  size_t begin_ = 0;  // of what was not given yet
  bool ended_ = false;
  int64_t line_ = 0;
};

/// Plain text in pieces of about 64 KiB that a tokenizer may take one by one. A piece ends after a
/// newline between two characters that are no white space, where the pre-tokenizers of byte-level
/// BPE and WordPiece cut in any case; a piece that has no such place within 1 MiB ends between two
/// characters. Where the cuts are depends on the text alone.
class PieceReader {
 public:
  explicit PieceReader(const std::filesystem::path& path) : reader_(path) {}

  /// False at the end. Throws with the line's number where the text is not UTF-8.
  bool next(std::string& piece);
  int64_t done() const { return reader_.done(); }

 private:
  size_t cut() const;  // bytes of the next piece; 0: more text is needed

  BlockReader reader_;
  std::string buffer_;
  size_t begin_ = 0;
  bool ended_ = false;
  int64_t line_ = 1;  // at the beginning of the piece
};

}  // namespace heed
