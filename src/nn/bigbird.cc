#include "nn/bigbird.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/check.h"
#include "heed/ops.h"
#include "nn/heads.h"

namespace heed {
namespace {

constexpr const char* kBigBird = "bigbird_attention";

/// Key blocks of one inner query block, and which of them to hide because they came before.
struct BlockList {
  std::vector<int64_t> block;
  std::vector<bool> again;
};

/// The first, the last and the window's blocks once each; then the random ones, each as often as it
/// comes.
BlockList blocks_of(int64_t row, int64_t blocks, const int64_t* random, int64_t count) {
  BlockList list;
  for (const int64_t block : {int64_t{0}, row - 1, row, row + 1, blocks - 1}) {
    list.again.push_back(std::count(list.block.begin(), list.block.end(), block) > 0);
    list.block.push_back(block);
  }
  for (int64_t r = 0; r < count; ++r) {
    list.block.push_back(random[r]);
    list.again.push_back(false);
  }
  return list;
}

/// x [B, H, T, D] as rows [B·H·blocks, block_size·D].
Tensor as_blocks(const Tensor& x, int64_t block_size) {
  return reshape(contiguous(x),
                 {x.size(0) * x.size(1) * (x.size(2) / block_size), block_size * x.size(3)});
}

struct InnerKeys {
  Tensor index;  // i64 [B·H·inner·width]: rows of as_blocks()
  Tensor mask;   // u8 [B·H·inner, width·block_size]
  int64_t width = 0;
};

InnerKeys inner_keys(const BigBirdInputs& in, const Tensor& key_padding, int64_t blocks) {
  const int64_t batch = in.q.size(0);
  const int64_t heads = in.q.size(1);
  const int64_t inner = blocks - 2;
  const int64_t random = in.random_blocks.size(2);
  const Tensor table = in.random_blocks.to(DType::i64).contiguous();
  InnerKeys keys;
  keys.width = 5 + random;
  keys.index = Tensor::empty({batch * heads * inner * keys.width}, DType::i64);
  keys.mask = Tensor::empty({batch * heads * inner, keys.width * in.block_size}, DType::u8);
  int64_t* index = keys.index.data<int64_t>();
  uint8_t* mask = keys.mask.data<uint8_t>();
  const uint8_t* padding = key_padding.defined() ? key_padding.data<uint8_t>() : nullptr;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t row = 1; row <= inner; ++row) {
        const BlockList list =
            blocks_of(row, blocks, table.data<int64_t>() + (h * inner + row - 1) * random, random);
        for (size_t n = 0; n < list.block.size(); ++n) {
          *index++ = (b * heads + h) * blocks + list.block[n];
          for (int64_t j = 0; j < in.block_size; ++j) {
            const int64_t key = list.block[n] * in.block_size + j;
            const bool real = padding == nullptr || padding[b * blocks * in.block_size + key] != 0;
            *mask++ = real && !list.again[n] ? 1 : 0;
          }
        }
      }
    }
  }
  return keys;
}

/// Blocks 1 … blocks-2: every query block is a sequence of its own with the keys it sees.
Tensor inner_blocks(const BigBirdInputs& in, const Tensor& key_padding, int64_t blocks,
                    AttentionOptions options) {
  const int64_t batch = in.q.size(0);
  const int64_t heads = in.q.size(1);
  const int64_t inner = blocks - 2;
  const int64_t sequences = batch * heads * inner;
  const InnerKeys keys = inner_keys(in, key_padding, blocks);
  const auto seen = [&](const Tensor& x) {
    return reshape(index_rows(as_blocks(x, in.block_size), keys.index),
                   {sequences, 1, keys.width * in.block_size, x.size(3)});
  };
  const Tensor q = slice(in.q, 2, in.block_size, in.q.size(2) - in.block_size);
  options.key_padding = keys.mask;
  const Tensor out = attention(reshape(q, {sequences, 1, in.block_size, in.q.size(3)}), seen(in.k),
                               seen(in.v), options);
  return reshape(out, {batch, heads, inner * in.block_size, in.v.size(3)});
}

/// The blocks that every query block sees, as a pattern over all pairs of positions. A block that a
/// query sees more than once counts as often, by a bias of its logarithm.
class BlockPattern final : public ScorePattern {
 public:
  explicit BlockPattern(const BigBirdInputs& in)
      : block_size_(in.block_size),
        blocks_(in.q.size(2) / in.block_size),
        random_(in.random_blocks.size(2)),
        table_(in.random_blocks.to(DType::i64).to_vector<int64_t>()) {}

  Tensor part(int64_t /*batch*/, int64_t head, std::span<const int64_t> rows, int64_t key_begin,
              int64_t key_end) const override {
    const auto count = static_cast<int64_t>(rows.size());
    Tensor result = Tensor::full({count, key_end - key_begin}, -INFINITY);
    float* out = result.data<float>() - key_begin;
    bool any = false;
    int64_t last = -1;
    std::map<int64_t, int64_t> seen;
    for (const int64_t row : rows) {
      if (row / block_size_ != last) {
        last = row / block_size_;
        seen = seen_blocks(head, last);
      }
      for (const auto& [block, times] : seen) {
        const int64_t from = std::max(block * block_size_, key_begin);
        const int64_t to = std::min((block + 1) * block_size_, key_end);
        if (from < to) {
          std::fill(out + from, out + to, std::log(static_cast<float>(times)));
          any = true;
        }
      }
      out += key_end - key_begin;
    }
    return any ? result : Tensor();
  }

 private:
  /// How often a query block sees each block that it sees.
  std::map<int64_t, int64_t> seen_blocks(int64_t head, int64_t row) const {
    std::map<int64_t, int64_t> times;
    if (row == 0 || row + 1 == blocks_) {
      for (int64_t block = 0; block < blocks_; ++block) {
        times[block] = 1;
      }
      return times;
    }
    const int64_t* drawn = table_.data() + (head * (blocks_ - 2) + row - 1) * random_;
    const BlockList list = blocks_of(row, blocks_, drawn, random_);
    for (size_t n = 0; n < list.block.size(); ++n) {
      times[list.block[n]] += list.again[n] ? 0 : 1;
    }
    return times;
  }

  int64_t block_size_, blocks_, random_;
  std::vector<int64_t> table_;
};

void check_inputs(const BigBirdInputs& in) {
  check(in.block_size > 0, kBigBird, "block size {} must be positive", in.block_size);
  check(in.q.rank() == 4 && in.q.shape() == in.k.shape() && in.v.rank() == 4 &&
            in.v.size(2) == in.q.size(2) && in.v.size(1) == in.q.size(1),
        kBigBird, "q {}, k {} and v {} must be [batch, heads, length, depth] of one length",
        in.q.shape(), in.k.shape(), in.v.shape());
  check(in.q.size(2) % in.block_size == 0, kBigBird,
        "length {} is no multiple of the block size {}; pad it and mark the padding", in.q.size(2),
        in.block_size);
  check(!in.key_padding.defined() || in.key_padding.shape() == Shape({in.q.size(0), in.q.size(2)}),
        kBigBird, "key_padding must be [batch, length]");
}

void check_random_blocks(const BigBirdInputs& in, int64_t blocks) {
  const Tensor& table = in.random_blocks;
  check(table.defined() && table.rank() == 3 && table.size(0) == in.q.size(1) &&
            table.size(1) == blocks - 2,
        kBigBird, "random_blocks must be [heads, blocks - 2, random] = [{}, {}, …]", in.q.size(1),
        blocks - 2);
  for (const int64_t block : table.to_vector<int64_t>()) {
    check(block >= 0 && block < blocks, kBigBird, "random block {} is outside 0 … {}", block,
          blocks - 1);
  }
}

}  // namespace

Tensor bigbird_attention(const BigBirdInputs& in) {
  check_inputs(in);
  const int64_t blocks = in.q.size(2) / in.block_size;
  const int64_t random = in.random_blocks.defined() ? in.random_blocks.size(-1) : 0;
  AttentionOptions options;
  options.dropout = in.dropout;
  options.training = in.training;
  const Tensor key_padding =
      in.key_padding.defined() ? in.key_padding.to(DType::u8).contiguous() : in.key_padding;
  options.key_padding = key_padding;
  Tensor out;
  if (in.q.size(2) <= (5 + 2 * random) * in.block_size) {
    out = attention(in.q, in.k, in.v, options);
  } else {
    check_random_blocks(in, blocks);
    const int64_t last = in.q.size(2) - in.block_size;
    // The first and the last block see everything.
    out = concat({attention(slice(in.q, 2, 0, in.block_size), in.k, in.v, options),
                  inner_blocks(in, key_padding, blocks, options),
                  attention(slice(in.q, 2, last, in.q.size(2)), in.k, in.v, options)},
                 2);
  }
  if (key_padding.defined()) {
    out = out * reshape(key_padding.to(out.dtype()), {out.size(0), 1, out.size(2), 1});
  }
  return out;
}

Tensor shown_bigbird_attention(const BigBirdInputs& in, int64_t length, const Tensor& key_padding) {
  const auto real = [&](const Tensor& x) { return slice(x, 2, 0, length); };
  PatternInputs whole{real(in.q), real(in.k), real(in.v), {}};
  whole.options.key_padding = key_padding;
  whole.options.pattern = std::make_shared<BlockPattern>(in);
  const auto sparse = [&] {
    RowCollector rows;
    const Tensor output = bigbird_attention(in);
    // Of the first block, the inner ones as sequences of their own, and the last.
    const auto joined = [&](std::vector<Tensor> parts) {
      parts[1] = reshape(parts[1], {in.q.size(0), in.q.size(1), in.q.size(2) - 2 * in.block_size});
      return real(concat(parts, 2)).contiguous();
    };
    return FlashResult{real(output), joined(rows.row_max), joined(rows.row_inverse)};
  };
  return shown_by_pattern(whole, sparse, [&](const AttentionOptions& changed) {
    return attend_by_pattern(whole, changed);
  });
}

Tensor bigbird_random_blocks(int64_t heads, int64_t blocks, int64_t random, RandomKey key,
                             bool hf_compat) {
  check(heads > 0 && blocks > 2 && random >= 0, "bigbird_random_blocks",
        "{} heads, {} blocks, {} random ones", heads, blocks, random);
  check(hf_compat || blocks - 5 >= random, "bigbird_random_blocks",
        "{} blocks leave fewer than {} beside the window and the ends", blocks, random);
  Tensor table = Tensor::zeros({heads, blocks - 2, random}, DType::i64);
  if (hf_compat) {
    return table;
  }
  Random draw(key.seed, key.stream);
  int64_t* out = table.data<int64_t>();
  for (int64_t row = 0; row < heads * (blocks - 2); ++row) {
    const int64_t block = row % (blocks - 2) + 1;
    std::vector<int64_t> free;
    for (int64_t other = 1; other < blocks - 1; ++other) {
      if (std::abs(other - block) > 1) {
        free.push_back(other);
      }
    }
    for (int64_t r = 0; r < random; ++r) {  // the first `random` of a shuffle
      const auto from = static_cast<size_t>(r);
      std::swap(free[from], free[from + draw.below(free.size() - from)]);
      *out++ = free[from];
    }
  }
  return table;
}

}  // namespace heed
