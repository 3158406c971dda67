#include "retrieval/vectors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/parallel.h"
#include "kernels/dot_rows.h"

namespace heed {
namespace {

constexpr int64_t kTile = 2048;  // vectors scored at a time

/// Keeps the best `count` hits of a stream.
class BestHits {
 public:
  explicit BestHits(int64_t count) : count_(static_cast<size_t>(count)) {}

  void add(const VectorHit& hit) {
    if (heap_.size() < count_) {
      heap_.push_back(hit);
      std::push_heap(heap_.begin(), heap_.end(), better);
    } else if (!heap_.empty() && better(hit, heap_.front())) {
      std::pop_heap(heap_.begin(), heap_.end(), better);
      heap_.back() = hit;
      std::push_heap(heap_.begin(), heap_.end(), better);
    }
  }
  /// A score below this one changes nothing.
  float least() const { return heap_.size() < count_ ? -INFINITY : heap_.front().score; }
  std::vector<VectorHit> sorted() {
    std::sort(heap_.begin(), heap_.end(), better);
    return std::move(heap_);
  }

 private:
  size_t count_;
  std::vector<VectorHit> heap_;  // the worst in front
};

}  // namespace

float quantize_vector(const float* vector, int64_t dim, int8_t* out) {
  float largest = 0.0F;
  for (int64_t j = 0; j < dim; ++j) {
    largest = std::max(largest, std::abs(vector[j]));
  }
  const float scale = largest / 127.0F;
  for (int64_t j = 0; j < dim; ++j) {
    out[j] = largest == 0.0F ? int8_t{0} : static_cast<int8_t>(std::lround(vector[j] / scale));
  }
  return scale;
}

void VectorTable::reserve(int64_t vectors) {
  const auto count = static_cast<size_t>(vectors);
  const size_t numbers = count * static_cast<size_t>(dim_);
  ids_.reserve(count);
  if (type_ == VectorType::f32) {
    rows_f32_.reserve(numbers);
  } else {
    scales_.reserve(count);
    rows_int8_.reserve(numbers);
  }
}

bool VectorTable::fits(std::span<const int64_t> ids, std::span<const float> scales,
                       std::span<const std::byte> rows) const {
  const size_t numbers = ids.size() * static_cast<size_t>(dim_);
  const bool scaled = scales.size() == ids.size();
  return type_ == VectorType::f32
             ? rows.size() == numbers * sizeof(float) && (scales.empty() || scaled)
             : rows.size() == numbers && scaled;
}

void VectorTable::append(std::span<const int64_t> ids, std::span<const float> scales,
                         std::span<const std::byte> rows) {
  check(fits(ids, scales, rows), "index", "{} vectors of {} numbers do not fit {} bytes",
        ids.size(), dim_, rows.size());
  const size_t row_bytes = ids.empty() ? 0 : rows.size() / ids.size();
  for (size_t begin = 0; begin < ids.size();) {
    if (ids[begin] == 0) {
      ++begin;
      continue;
    }
    size_t end = begin;  // of a run of vectors that are there
    while (end < ids.size() && ids[end] != 0) {
      ++end;
    }
    append_run(ids.subspan(begin, end - begin),
               scales.empty() ? scales : scales.subspan(begin, end - begin),
               rows.subspan(begin * row_bytes, (end - begin) * row_bytes));
    begin = end;
  }
}

void VectorTable::append_run(std::span<const int64_t> ids, std::span<const float> scales,
                             std::span<const std::byte> rows) {
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  if (type_ == VectorType::f32) {
    const size_t old = rows_f32_.size();
    rows_f32_.resize(old + rows.size() / sizeof(float));
    std::memcpy(rows_f32_.data() + old, rows.data(), rows.size());
  } else {
    scales_.insert(scales_.end(), scales.begin(), scales.end());
    const auto* values = reinterpret_cast<const int8_t*>(rows.data());
    rows_int8_.insert(rows_int8_.end(), values, values + rows.size());
  }
}

VectorQuery VectorTable::query(const float* vector) const {
  VectorQuery query;
  if (type_ == VectorType::f32) {
    query.values.assign(vector, vector + dim_);
    return query;
  }
  query.rounded.resize(static_cast<size_t>(dim_));
  double largest = 0.0;
  double sum = 0.0;
  for (int64_t j = 0; j < dim_; ++j) {
    largest = std::max(largest, std::abs(double{vector[j]}));
    sum += std::abs(double{vector[j]});
  }
  if (largest == 0.0) {
    return query;
  }
  // Rounding adds at most 1/2 to each of the values.
  const double room = 2147483647.0 / 128.0 - static_cast<double>(dim_);
  const double factor = std::min(32767.0 / largest, room / sum);
  for (int64_t j = 0; j < dim_; ++j) {
    query.rounded[static_cast<size_t>(j)] = static_cast<int16_t>(std::lround(vector[j] * factor));
  }
  query.scale = static_cast<float>(1.0 / factor);
  return query;
}

VectorQuery VectorTable::row_query(int64_t row) const {
  if (type_ == VectorType::f32) {
    return query(rows_f32_.data() + row * dim_);
  }
  VectorQuery query;  // the stored numbers themselves: the product is exact
  const int8_t* values = rows_int8_.data() + row * dim_;
  query.rounded.assign(values, values + dim_);
  query.scale = scales_[static_cast<size_t>(row)];
  return query;
}

float VectorTable::score(int64_t row, const VectorQuery& query) const {
  float score = 0.0F;
  score_tile(query, row, row + 1, &score);
  return score;
}

void VectorTable::score_tile(const VectorQuery& query, int64_t begin, int64_t end,
                             float* scores) const {
  if (type_ == VectorType::f32) {
    kernels::dot_rows(scores, rows_f32_.data() + begin * dim_, end - begin, dim_,
                      query.values.data());
    return;
  }
  int32_t products[kTile];
  kernels::dot_rows(products, rows_int8_.data() + begin * dim_, end - begin, dim_,
                    query.rounded.data());
  for (int64_t i = 0; i < end - begin; ++i) {
    scores[i] =
        static_cast<float>(products[i]) * (scales_[static_cast<size_t>(begin + i)] * query.scale);
  }
}

std::vector<VectorHit> VectorTable::search(const float* vector, int64_t count) const {
  // A task scores several tiles with one heap: fewer candidates to merge, and most scores are
  // rejected by the heap's smallest one.
  constexpr int64_t kTask = 16 * kTile;
  const VectorQuery prepared = query(vector);
  const int64_t tasks = (size() + kTask - 1) / kTask;
  std::vector<std::vector<VectorHit>> found(static_cast<size_t>(tasks));
  parallel_for(tasks, [&](int64_t task) {
    BestHits best(count);
    float scores[kTile];
    const int64_t stop = std::min(size(), (task + 1) * kTask);
    for (int64_t begin = task * kTask; begin < stop; begin += kTile) {
      const int64_t end = std::min(begin + kTile, stop);
      score_tile(prepared, begin, end, scores);
      for (int64_t i = begin; i < end; ++i) {
        const float score = scores[i - begin];
        if (score >= best.least()) {
          best.add({ids_[static_cast<size_t>(i)], score});
        }
      }
    }
    found[static_cast<size_t>(task)] = best.sorted();
  });
  return merge_hits(found, count);
}

std::vector<VectorHit> merge_hits(const std::vector<std::vector<VectorHit>>& lists, int64_t count) {
  std::vector<VectorHit> all;
  for (const auto& list : lists) {
    all.insert(all.end(), list.begin(), list.end());
  }
  const auto kept = std::min(static_cast<size_t>(count), all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end(),
                    better);
  all.resize(kept);
  return all;
}

}  // namespace heed
