#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace heed {

enum class VectorType { f32, int8 };

/// A vector in the index and how close it is to the query.
struct VectorHit {
  int64_t chunk = 0;
  float score = 0.0F;
};

/// The better of two hits: the higher score; of equals the chunk that was indexed first.
inline bool better(const VectorHit& a, const VectorHit& b) {
  return a.score != b.score ? a.score > b.score : a.chunk < b.chunk;
}

/// Quantises `dim` numbers to int8 and returns the scale: value ≈ scale · int8.
float quantize_vector(const float* vector, int64_t dim, int8_t* out);

/// A query as a table compares it with its rows: for int8 as whole numbers, query ≈ scale ·
/// rounded, with Σ|rounded| · 128 < 2³¹ so that no sum of products overflows.
struct VectorQuery {
  std::vector<float> values;     ///< f32 tables
  std::vector<int16_t> rounded;  ///< int8 tables
  float scale = 0.0F;
};

/// Stored vectors in memory, searched exactly.
class VectorTable {
 public:
  VectorTable(VectorType type, int64_t dim) : type_(type), dim_(dim) {}

  /// Whether append() takes these: as many rows and scales as ids.
  bool fits(std::span<const int64_t> ids, std::span<const float> scales,
            std::span<const std::byte> rows) const;
  /// Appends `ids.size()` vectors: f32 or int8 rows as bytes, and for int8 one scale per row. Those
  /// with id 0 were deleted and are left out.
  void append(std::span<const int64_t> ids, std::span<const float> scales,
              std::span<const std::byte> rows);
  void reserve(int64_t vectors);

  int64_t size() const { return static_cast<int64_t>(ids_.size()); }
  int64_t dim() const { return dim_; }
  int64_t id(int64_t row) const { return ids_[static_cast<size_t>(row)]; }

  VectorQuery query(const float* vector) const;
  /// A stored vector as a query.
  VectorQuery row_query(int64_t row) const;
  /// The product of one row with the query.
  float score(int64_t row, const VectorQuery& query) const;

  /// The `count` vectors with the largest products with `query` [dim], best first. Computed in
  /// parallel over fixed tiles: the result does not depend on the number of threads. An int8
  /// table's scores are exact products of the stored vectors with the query rounded to 16 bits.
  std::vector<VectorHit> search(const float* query, int64_t count) const;

 private:
  void append_run(std::span<const int64_t> ids, std::span<const float> scales,
                  std::span<const std::byte> rows);
  void score_tile(const VectorQuery& query, int64_t begin, int64_t end, float* scores) const;

  VectorType type_;
  int64_t dim_;
  std::vector<int64_t> ids_;
  std::vector<float> scales_;
  std::vector<float> rows_f32_;
  std::vector<int8_t> rows_int8_;
};

/// The `count` best of several lists, best first.
std::vector<VectorHit> merge_hits(const std::vector<std::vector<VectorHit>>& lists, int64_t count);

}  // namespace heed
