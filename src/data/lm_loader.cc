#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/checksum.h"
#include "heed/data.h"
#include "heed/runtime.h"

namespace heed {
namespace {

constexpr uint64_t kPhaseStream = uint64_t{3} << 62;
constexpr uint64_t kMaskSeed = 0x6d61736b;
constexpr int64_t kFewBlocks = 8;

/// The stretch of a text that a part of it is: validation has the end.
struct Stretch {
  int64_t begin;
  int64_t end;
};

Stretch stretch_of(int64_t tokens, const LoaderOptions& options) {
  const auto cut =
      tokens - static_cast<int64_t>(std::llround(static_cast<double>(tokens) * options.validation));
  return {options.part == Part::validation ? cut : 0, options.part == Part::train ? cut : tokens};
}

LoaderOptions already_split(LoaderOptions options) {
  options.part = Part::all;
  return options;
}

/// Blocks of `size` tokens, `stride` apart. Each epoch begins at another offset, so that the same
/// tokens do not always stand at the edges.
class BlockLoader : public Loader {
 protected:
  BlockLoader(const TokenShard& text, int64_t size, int64_t stride, const LoaderOptions& options)
      : Loader(already_split(options)),
        text_(text),
        stretch_(stretch_of(text.tokens(), options)),
        size_(size),
        stride_(stride) {
    const int64_t tokens = stretch_.end - stretch_.begin;
    const int64_t least = options.shuffle ? size_ : std::min<int64_t>(size_, 2);
    check_data(tokens >= least, "text",
               "has {} tokens from token {} on; a block needs {}: give more text or a smaller "
               "context",
               tokens, stretch_.begin, least);
    size_ = std::min(size_, tokens);
    int64_t blocks = (tokens - size_) / stride_ + 1;
    moves_ = options.shuffle && blocks > kFewBlocks;
    blocks -= moves_ ? 1 : 0;
    const int64_t cut[4] = {stretch_.begin, stretch_.end, size_, stride_};
    set_examples(blocks, fingerprint_of(cut, sizeof(cut), text.fingerprint()), false);
  }

  void copy_block(int64_t block, int64_t epoch, int64_t* out) const {
    const int64_t phase =
        moves_ ? static_cast<int64_t>(
                     Random(options().seed, kPhaseStream | static_cast<uint64_t>(epoch))
                         .below(static_cast<uint64_t>(stride_)))
               : 0;
    text_.copy(stretch_.begin + phase + block * stride_, size_, out);
  }

  int64_t size() const { return size_; }

 private:
  TokenShard text_;
  Stretch stretch_;
  int64_t size_;
  int64_t stride_;
  bool moves_ = false;
};

class LmLoader final : public BlockLoader {
 public:
  LmLoader(const TokenShard& text, int64_t context, const LoaderOptions& options)
      : BlockLoader(text, context, context - 1, options) {}

 protected:
  Batch collate(const std::vector<int64_t>& examples, int64_t begin, int64_t end,
                int64_t step) const override {
    Batch batch;
    batch.rows = end - begin;
    batch.input_ids = Tensor::empty({batch.rows, size()}, DType::i64);
    for (int64_t row = begin; row < end; ++row) {
      copy_block(examples[static_cast<size_t>(row)], epoch_of(step),
                 batch.input_ids.data<int64_t>() + (row - begin) * size());
    }
    // Nothing comes before a block's first token, so nothing can predict it.
    batch.labels = batch.input_ids.clone();
    for (int64_t row = 0; row < batch.rows; ++row) {
      batch.labels.data<int64_t>()[row * size()] = -100;
    }
    batch.targets = batch.rows * (size() - 1);
    batch.global_targets = static_cast<int64_t>(examples.size()) * (size() - 1);
    batch.tokens = batch.rows * size();
    return batch;
  }
};

class MlmLoader final : public BlockLoader {
 public:
  MlmLoader(const TokenShard& text, int64_t context, const Masking& masking,
            const LoaderOptions& options)
      : BlockLoader(text, context - around(masking), context - around(masking), options),
        masking_(masking) {
    check(masking.share > 0 && masking.share <= 1, "masking", "share {} must be in (0, 1]",
          masking.share);
    check(masking.vocabulary > 0, "masking", "the vocabulary's size is wanted");
    std::sort(masking_.keep.begin(), masking_.keep.end());
  }

 protected:
  Batch collate(const std::vector<int64_t>& examples, int64_t begin, int64_t end,
                int64_t step) const override {
    const int64_t length = size() + around(masking_);
    const auto count = static_cast<int64_t>(examples.size());
    Batch batch;
    batch.rows = count;
    batch.input_ids = Tensor::empty({count, length}, DType::i64);
    batch.labels = Tensor::full({count, length}, -100, DType::i64);
    for (int64_t row = 0; row < count; ++row) {
      int64_t* ids = batch.input_ids.data<int64_t>() + row * length;
      ids[0] = masking_.first;
      ids[length - 1] = masking_.last;
      int64_t* inner = ids + (masking_.first >= 0 ? 1 : 0);
      copy_block(examples[static_cast<size_t>(row)], epoch_of(step), inner);
      const int64_t place = inner - batch.input_ids.data<int64_t>();
      mask(inner, batch.labels.data<int64_t>() + place, step, place);
    }
    const int64_t targets = batch_rows(batch, 0, count).targets;
    batch = batch_rows(batch, begin, end);
    batch.global_targets = targets;
    return batch;
  }

 private:
  static int64_t around(const Masking& masking) {
    return (masking.first >= 0 ? 1 : 0) + (masking.last >= 0 ? 1 : 0);
  }

  /// Chooses tokens by (seed, step, index in the global batch).
  void mask(int64_t* ids, int64_t* labels, int64_t step, int64_t place) const {
    const auto share = static_cast<uint64_t>(masking_.share * 4294967296.0);
    for (int64_t t = 0; t < size(); ++t) {
      const auto words = philox(options().seed ^ kMaskSeed, static_cast<uint64_t>(step),
                                static_cast<uint64_t>(place + t));
      if (words[0] >= share ||
          std::binary_search(masking_.keep.begin(), masking_.keep.end(), ids[t])) {
        continue;
      }
      labels[t] = ids[t];
      const uint32_t tenth = words[1] / 429496730;  // 0 … 9
      if (tenth < 8) {
        ids[t] = masking_.mask;
      } else if (tenth == 8) {
        ids[t] = static_cast<int64_t>(
            uint64_t{words[2]} * static_cast<uint64_t>(masking_.vocabulary) >> 32);
      }
    }
  }

  Masking masking_;
};

}  // namespace

std::unique_ptr<Loader> make_lm_loader(const TokenShard& text, int64_t context,
                                       const LoaderOptions& options) {
  check(context >= 2, "loader", "context {} must be at least 2", context);
  return std::make_unique<LmLoader>(text, context, options);
}

std::unique_ptr<Loader> make_mlm_loader(const TokenShard& text, int64_t context,
                                        const Masking& masking, const LoaderOptions& options) {
  check(context >= 4, "loader", "context {} must be at least 4", context);
  return std::make_unique<MlmLoader>(text, context, masking, options);
}

}  // namespace heed
