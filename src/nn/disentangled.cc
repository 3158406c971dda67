#include <algorithm>
#include <memory>
#include <mutex>

#include "base/check.h"
#include "base/parallel.h"
#include "heed/attention.h"
#include "heed/ops.h"
#include "ops/relative.h"

namespace heed {
namespace {

void check_positions(const Tensor& q, const Tensor& k, const DisentangledPositions& positions) {
  constexpr const char* kOp = "disentangled_bias";
  check(q.rank() == 4 && q.shape() == k.shape(), kOp, "q {} and k {} must be alike [B, H, T, D]",
        q.shape(), k.shape());
  const auto check_table = [&](const Tensor& table, const Tensor& rows) {
    if (table.defined()) {
      check(table.rank() == 3 && table.size(1) == q.size(1) && table.size(2) == q.size(3), kOp,
            "a table of positions is {}; [rows, {}, {}] is wanted", table.shape(), q.size(1),
            q.size(3));
      check(rows.defined() && rows.dtype() == DType::i64 &&
                rows.shape() == Shape({2 * q.size(2) - 1}),
            kOp, "a table of positions needs a row for each of {} distances, as i64",
            2 * q.size(2) - 1);
    }
  };
  check_table(positions.key, positions.key_rows);
  check_table(positions.query, positions.query_rows);
}

/// [B, H, T, T]: the products of x with the table's row of the distance column - row.
Tensor products_by_distance(const Tensor& x, const Tensor& table, const Tensor& rows) {
  const Tensor positions = transpose(index_rows(table, rows), 0, 1);  // [H, 2T-1, D]
  return spread_distances(matmul(x, transpose(unsqueeze(positions, 0))), x.size(2), 0);
}

class DisentangledPattern final : public ScorePattern {
 public:
  DisentangledPattern(const Tensor& q, const Tensor& k, const DisentangledPositions& positions,
                      double scale)
      : q_(readable(q)), k_(readable(k)), scale_(static_cast<float>(scale)) {
    table_ = {readable(positions.key), readable(positions.query),
              positions.key_rows.defined() ? positions.key_rows.contiguous() : Tensor(),
              positions.query_rows.defined() ? positions.query_rows.contiguous() : Tensor()};
  }

  Tensor part(int64_t batch, int64_t head, std::span<const int64_t> rows, int64_t key_begin,
              int64_t key_end) const override {
    constexpr int64_t kKeys = 128;  // whose products with the table fit into the cache
    const std::shared_ptr<const Products> products = products_of(batch, head);
    const int64_t keys = key_end - key_begin;
    Tensor out = Tensor::empty({static_cast<int64_t>(rows.size()), keys});
    parallel_ranges(keys, kKeys, [&](int64_t begin, int64_t end) {
      for (size_t r = 0; r < rows.size(); ++r) {
        float* row = out.data<float>() + static_cast<int64_t>(r) * keys;
        products->sums(table_, rows[r], {key_begin + begin, key_begin + end}, row + begin);
        std::transform(row + begin, row + end, row + begin, [this](float x) { return x * scale_; });
      }
    });
    return out;
  }

  int64_t products() const override { return 8; }  // they are read, not computed, for each element

 private:
  /// The products of one head's queries and keys with the tables' rows, [T, rows] each.
  struct Products {
    int64_t batch = 0, head = 0;
    Tensor to_position, to_content;

    /// What a query has with the keys [first, second).
    void sums(const DisentangledPositions& table, int64_t query, std::pair<int64_t, int64_t> keys,
              float* out) const {
      const auto count = keys.second - keys.first;
      if (to_position.defined()) {
        const int64_t* rows =
            table.key_rows.data<int64_t>() + keys.first - query + to_position.size(0) - 1;
        const float* own = to_position.data<float>() + query * to_position.size(1);
        for (int64_t j = 0; j < count; ++j) {
          out[j] = own[rows[j]];
        }
      }
      if (to_content.defined()) {
        const int64_t width = to_content.size(1);
        const int64_t* rows =
            table.query_rows.data<int64_t>() + query - keys.first + to_content.size(0) - 1;
        const float* each = to_content.data<float>() + keys.first * width;
        const bool adds = to_position.defined();
        for (int64_t j = 0; j < count; ++j) {
          const float product = each[j * width + rows[-j]];
          out[j] = adds ? out[j] + product : product;
        }
      }
    }
  };

  static Tensor readable(const Tensor& x) {
    return x.defined() ? x.detach().to(DType::f32).contiguous() : x;
  }

  /// Computed when a head is asked for that is not the last one.
  std::shared_ptr<const Products> products_of(int64_t batch, int64_t head) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (last_ == nullptr || last_->batch != batch || last_->head != head) {
      const NoGrad no_grad;
      const auto of = [&](const Tensor& x, const Tensor& table) {
        if (!table.defined()) {
          return Tensor();
        }
        const Tensor own = select(select(x, 0, batch), 0, head);  // [T, D]
        return matmul(own, transpose(select(table, 1, head))).contiguous();
      };
      last_ = std::make_shared<Products>(
          Products{batch, head, of(q_, table_.key), of(k_, table_.query)});
    }
    return last_;
  }

  Tensor q_, k_;
  DisentangledPositions table_;
  float scale_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Products> last_;
};

}  // namespace

Tensor disentangled_bias(const Tensor& q, const Tensor& k, const DisentangledPositions& positions,
                         double scale) {
  check_positions(q, k, positions);
  Tensor bias;
  if (positions.key.defined()) {
    bias = products_by_distance(q, positions.key, positions.key_rows);
  }
  if (positions.query.defined()) {
    // Rows are keys here: the distance is read the other way round.
    const Tensor reversed =
        transpose(products_by_distance(k, positions.query, positions.query_rows));
    bias = bias.defined() ? bias + reversed : reversed;
  }
  return bias.defined() ? bias * scale : bias;
}

std::shared_ptr<const ScorePattern> disentangled_pattern(const Tensor& q, const Tensor& k,
                                                         const DisentangledPositions& positions,
                                                         double scale) {
  check_positions(q, k, positions);
  check(positions.key.defined() || positions.query.defined(), "disentangled_pattern",
        "one table of positions at least is wanted");
  return std::make_shared<DisentangledPattern>(q, k, positions, scale);
}

}  // namespace heed
