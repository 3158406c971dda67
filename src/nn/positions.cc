#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include "base/check.h"
#include "heed/nn.h"

namespace heed {
namespace {

/// In f32 like the reference, whose angles are rounded too; the last column of an odd width is 0.
Tensor tensor2tensor_positions(int64_t positions, int64_t width) {
  const int64_t half = width / 2;
  check(half > 1, "sinusoidal_positions", "width {}; at least 4 is wanted", width);
  Tensor table = Tensor::zeros({positions, width});
  float* out = table.data<float>();
  const auto step = static_cast<float>(std::log(10000.0) / static_cast<double>(half - 1));
  for (int64_t i = 0; i < half; ++i) {
    const float frequency = std::exp(static_cast<float>(i) * -step);
    for (int64_t p = 0; p < positions; ++p) {
      const float angle = static_cast<float>(p) * frequency;
      out[p * width + i] = std::sin(angle);
      out[p * width + half + i] = std::cos(angle);
    }
  }
  return table;
}

}  // namespace

Tensor sinusoidal_positions(int64_t positions, int64_t width, SinusoidLayout layout) {
  check(positions >= 0 && width > 0, "sinusoidal_positions", "{} positions of width {}", positions,
        width);
  if (layout == SinusoidLayout::tensor2tensor) {
    return tensor2tensor_positions(positions, width);
  }
  Tensor table = Tensor::empty({positions, width});
  float* out = table.data<float>();
  const int64_t half = (width + 1) / 2;
  const bool interleaved = layout == SinusoidLayout::interleaved;
  std::vector<double> lengths;
  for (int64_t pair = 0; pair < half; ++pair) {
    lengths.push_back(
        std::pow(10000.0, 2.0 * static_cast<double>(pair) / static_cast<double>(width)));
  }
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t i = 0; i < width; ++i) {
      const int64_t pair = interleaved ? i / 2 : i % half;
      const bool sine = interleaved ? i % 2 == 0 : i < half;
      const double angle = static_cast<double>(p) / lengths[static_cast<size_t>(pair)];
      out[p * width + i] = static_cast<float>(sine ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

namespace {

/// 0, 1, …, count - 1
Tensor row_numbers(int64_t count) {
  Tensor numbers = Tensor::empty({count}, DType::i64);
  std::iota(numbers.data<int64_t>(), numbers.data<int64_t>() + count, int64_t{0});
  return numbers;
}

/// Rotates the first columns of x [N, heads, head_dim] that the tables have angles for.
Tensor rotate_columns(const Tensor& x, const Tensor& positions, const Tensor& cos,
                      const Tensor& sin, bool interleaved) {
  const int64_t rotated = 2 * cos.size(1);
  if (rotated == x.size(2)) {
    return rotary(x, positions, cos, sin, interleaved);
  }
  const std::vector<Tensor> parts = split(x, {rotated, x.size(2) - rotated}, 2);
  return concat({rotary(contiguous(parts[0]), positions, cos, sin, interleaved), parts[1]}, 2);
}

}  // namespace

struct Rotary::Tables {
  std::vector<float> frequencies;
  int64_t limit = 0;  // positions
  float scale = 1.0f;
  double dynamic_theta = 0.0, dynamic_factor = 1.0;
  std::mutex mutex;
  Tensor cos, sin;  // of the positions reached so far

  /// The tables with room for position `last`; those handed out before stay as they are.
  std::pair<Tensor, Tensor> reaching(int64_t last) {
    const std::lock_guard lock(mutex);
    constexpr int64_t kFewest = 256;
    int64_t count = cos.defined() ? cos.size(0) : std::min(kFewest, limit);
    while (count <= last && count < limit) {
      count = std::min(2 * count, limit);
    }
    if (!cos.defined() || count > cos.size(0)) {
      compute(count);
    }
    return {cos, sin};
  }

  /// Tables with one row for each of `positions`, which may be beyond the limit. `rounded`: with
  /// the angle in f32, as the reference computes it.
  std::pair<Tensor, Tensor> at(const std::vector<int64_t>& positions, float factor,
                               bool rounded = false) const {
    const auto half = static_cast<int64_t>(frequencies.size());
    const auto count = static_cast<int64_t>(positions.size());
    std::pair<Tensor, Tensor> rows{Tensor::empty({count, half}), Tensor::empty({count, half})};
    for (int64_t row = 0; row < count; ++row) {
      for (int64_t i = 0; i < half; ++i) {
        // In f64: f32 knows the angle at position 1,000,000 to 0.03 only.
        double angle = static_cast<double>(positions[static_cast<size_t>(row)]) *
                       static_cast<double>(frequencies[static_cast<size_t>(i)]);
        angle = rounded ? static_cast<double>(static_cast<float>(angle)) : angle;
        rows.first.data<float>()[row * half + i] = static_cast<float>(std::cos(angle)) * factor;
        rows.second.data<float>()[row * half + i] = static_cast<float>(std::sin(angle)) * factor;
      }
    }
    return rows;
  }

  /// Rotates the rows of x at `positions`.
  Tensor rotate(const Tensor& x, const Tensor& positions, bool interleaved) {
    const std::vector<int64_t> reached = positions.to_vector<int64_t>();
    const int64_t last = reached.empty() ? 0 : *std::max_element(reached.begin(), reached.end());
    if (last >= limit) {
      const auto [cos_rows, sin_rows] = at(reached, scale);
      return rotate_columns(x, row_numbers(positions.numel()), cos_rows, sin_rows, interleaved);
    }
    const auto [cos_table, sin_table] = reaching(last);
    return rotate_columns(x, positions, cos_table, sin_table, interleaved);
  }

  void compute(int64_t count) {
    const auto half = static_cast<int64_t>(frequencies.size());
    cos = Tensor::empty({count, half});
    sin = Tensor::empty({count, half});
    for (int64_t p = 0; p < count; ++p) {
      for (int64_t i = 0; i < half; ++i) {
        // The product in f32, as the reference computes it: at position 2,000 it matters.
        const float angle = static_cast<float>(p) * frequencies[static_cast<size_t>(i)];
        cos.data<float>()[p * half + i] = std::cos(angle) * scale;
        sin.data<float>()[p * half + i] = std::sin(angle) * scale;
      }
    }
  }
};

namespace {

std::vector<double> plain_frequencies(int64_t width, double theta) {
  check(width > 0 && width % 2 == 0, "rotary",
        "head_dim {} is odd; rotary embeddings need an even one", width);
  std::vector<double> frequencies;
  for (int64_t i = 0; i < width; i += 2) {
    frequencies.push_back(1.0 /
                          std::pow(theta, static_cast<double>(i) / static_cast<double>(width)));
  }
  return frequencies;
}

}  // namespace

Rotary::Rotary(int64_t width, int64_t positions, double theta, bool interleaved)
    : Rotary(plain_frequencies(width, theta), positions, interleaved) {}

Rotary::Rotary(const std::vector<double>& frequencies, int64_t positions, bool interleaved,
               double scale)
    : tables_(std::make_shared<Tables>()), interleaved_(interleaved) {
  tables_->frequencies.assign(frequencies.begin(), frequencies.end());
  tables_->limit = positions;
  tables_->scale = static_cast<float>(scale);
}

void Rotary::set_long(const std::vector<double>& frequencies, int64_t from_length) {
  longer_ = std::make_shared<Tables>();
  longer_->frequencies.assign(frequencies.begin(), frequencies.end());
  longer_->limit = tables_->limit;
  longer_->scale = tables_->scale;
  short_length_ = from_length;
}

void Rotary::set_dynamic(double theta, double factor, int64_t length) {
  check(tables_->frequencies.size() > 1, "rotary",
        "dynamic scaling needs more than two rotated columns");
  tables_->dynamic_theta = theta;
  tables_->dynamic_factor = factor;
  short_length_ = length;
}

/// Rotates rows of sequences that are `length` long; 0: of any that are not longer than usual.
Tensor Rotary::rotate(const Tensor& x, const Tensor& positions, int64_t length) const {
  if (length == 0 || longer_ != nullptr) {
    return (length == 0 ? tables_ : longer_)->rotate(x, positions, interleaved_);
  }
  const auto width = static_cast<int64_t>(2 * tables_->frequencies.size());
  const double beyond = static_cast<double>(length) / static_cast<double>(short_length_) - 1.0;
  const double exponent = static_cast<double>(width) / static_cast<double>(width - 2);
  const std::vector<double> frequencies = plain_frequencies(
      width, tables_->dynamic_theta * std::pow(1.0 + tables_->dynamic_factor * beyond, exponent));
  Tables tables;
  tables.frequencies.assign(frequencies.begin(), frequencies.end());
  const auto [cos, sin] = tables.at(positions.to_vector<int64_t>(), tables_->scale, true);
  return rotate_columns(x, row_numbers(positions.numel()), cos, sin, interleaved_);
}

Tensor Rotary::operator()(const Tensor& x, const Tensor& positions, const Layout& layout) const {
  if (!depends_on_length()) {
    return rotate(x, positions, 0);
  }
  // Each sequence by its own length, so that its result does not depend on the batch.
  const int64_t* position = positions.data<int64_t>();
  std::vector<int64_t> counts, lengths;  // of the rows that share their angles; 0: not long
  for (int64_t i = 0; i < layout.batch; ++i) {
    const int64_t rows = layout.length_of(i);
    int64_t end = rows > 0 ? position[layout.start(i + 1) - 1] + 1 : 0;
    end = layout.ends.empty() ? end : std::max(end, layout.ends[static_cast<size_t>(i)]);
    const int64_t length = end <= short_length_ ? 0 : longer_ != nullptr ? 1 : end;
    if (!lengths.empty() && lengths.back() == length) {
      counts.back() += rows;
    } else {
      counts.push_back(rows);
      lengths.push_back(length);
    }
  }
  if (lengths.size() == 1) {
    return rotate(x, positions, lengths.front());
  }
  const std::vector<Tensor> rows = split(x, counts, 0);
  const std::vector<Tensor> at = split(positions, counts, 0);
  std::vector<Tensor> parts;
  for (size_t i = 0; i < rows.size(); ++i) {
    parts.push_back(rotate(contiguous(rows[i]), at[i], lengths[i]));
  }
  return concat(parts, 0);
}

Tensor Rotary::operator()(const Tensor& x, const Tensor& positions) const {
  return rotate(x, positions, 0);
}

Tensor Rotary::shifted(const Tensor& keys, int64_t positions) const {
  const auto [cos, sin] = tables_->at({positions}, 1.0F);
  return rotate_columns(keys, Tensor::zeros({keys.size(0)}, DType::i64), cos, sin, interleaved_);
}

}  // namespace heed
