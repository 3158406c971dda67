#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/checksum.h"
#include "base/parallel.h"
#include "data/gather_rows.h"
#include "data/targets.h"
#include "heed/data.h"
#include "heed/io.h"

namespace heed {
namespace {

/// Grey in all channels.
Tensor with_channels(const Tensor& image, int64_t channels) {
  if (channels == 0 || image.size(0) == channels) {
    return image;
  }
  check(image.size(0) == 1, "image", "{} channels cannot become {}", image.size(0), channels);
  Shape strides = image.strides();
  strides[0] = 0;
  return image.alias({channels, image.size(1), image.size(2)}, strides, 0).contiguous();
}

/// The images of a set as pixel_values of one size.
class Pictures {
 public:
  Pictures(const ImageData& data, const ImageOptions& options) : data_(data), options_(options) {
    check(data.size() > 0, "images", "there are none");
    if (!data.pixels && options_.channels == 0) {
      options_.channels = 3;
    }
    shape_ = image_values(image(0), options_).shape();
  }

  /// f32 [N, C, H, W] of the given images.
  Tensor values(const std::vector<int64_t>& examples, int64_t begin, int64_t end) const {
    Tensor result = Tensor::empty({end - begin, shape_[1], shape_[2], shape_[3]});
    const int64_t size = shape_.numel();
    parallel_for(end - begin, [&](int64_t row) {
      const Tensor from = image(examples[static_cast<size_t>(begin + row)]);
      Tensor one = image_values(from, options_);
      if (one.shape() != shape_) {  // no size was asked for: that of the first image
        one = image_values(resize_image(from, shape_[2], shape_[3]), options_);
      }
      std::memcpy(result.data<float>() + row * size, one.data<float>(),
                  static_cast<size_t>(size) * sizeof(float));
    });
    return result;
  }

  uint64_t fingerprint() const {
    if (data_.pixels) {
      const Tensor pixels = data_.pixels.contiguous();
      return fingerprint_of(pixels.raw(), static_cast<size_t>(pixels.bytes()), 0);
    }
    uint64_t value = 0;
    for (const std::filesystem::path& file : data_.files) {
      std::error_code ignored;
      value = fingerprint_of(file.filename().string(), value);
      value += std::filesystem::file_size(file, ignored);
    }
    return value;
  }

 private:
  Tensor image(int64_t index) const {
    if (!data_.pixels) {
      return load_image(data_.files[static_cast<size_t>(index)],
                        static_cast<int>(options_.channels));
    }
    const Shape& strides = data_.pixels.strides();
    const Shape& shape = data_.pixels.shape();
    return data_.pixels.alias({shape[1], shape[2], shape[3]}, {strides[1], strides[2], strides[3]},
                              index * strides[0]);
  }

  ImageData data_;
  ImageOptions options_;
  Shape shape_;  // [1, C, H, W]
};

class ImageLoader final : public Loader {
 public:
  ImageLoader(const ImageData& data, const ImageOptions& images, const LoaderOptions& options)
      : Loader(options), pictures_(data, images), label_(data.label) {
    check(static_cast<int64_t>(label_.size()) == data.size(), "images", "{} labels for {} images",
          label_.size(), data.size());
    set_examples(
        data.size(),
        fingerprint_of(label_.data(), label_.size() * sizeof(int32_t), pictures_.fingerprint()),
        false);
  }

 protected:
  Batch collate(const std::vector<int64_t>& examples, int64_t begin, int64_t end,
                int64_t) const override {
    Batch batch;
    batch.rows = batch.targets = end - begin;
    batch.global_targets = static_cast<int64_t>(examples.size());
    batch.pixel_values = pictures_.values(examples, begin, end);
    batch.labels = Tensor::empty({batch.rows}, DType::i64);
    for (int64_t row = 0; row < batch.rows; ++row) {
      batch.labels.data<int64_t>()[row] =
          label_[static_cast<size_t>(examples[static_cast<size_t>(begin + row)])];
    }
    return batch;
  }

 private:
  Pictures pictures_;
  std::vector<int32_t> label_;
};

/// What a caption looks at: pixels or regions, put into a batch by `fill`.
using FillImages = std::function<void(Batch& batch, const std::vector<int64_t>& examples,
                                      int64_t begin, int64_t end)>;

class CaptionLoader final : public Loader {
 public:
  CaptionLoader(FillImages fill, int64_t images, uint64_t fingerprint, const TokenShard& captions,
                const SequenceTokens& tokens, const LoaderOptions& options)
      : Loader(options), fill_(std::move(fill)), captions_(captions), tokens_(tokens) {
    check(captions.sequences() == images, "captions", "{} for {} images", captions.sequences(),
          images);
    const uint64_t both[2] = {fingerprint, captions.fingerprint()};
    set_examples(images, fingerprint_of(both, sizeof(both), 0), true);
  }

 protected:
  int64_t length_of(int64_t example) const override { return captions_.length(example); }
  Batch collate(const std::vector<int64_t>& examples, int64_t begin, int64_t end,
                int64_t) const override {
    Batch whole;
    fill_targets(whole, captions_, examples, tokens_, options().max_length);
    Batch batch = rank_rows(whole, begin, end);
    fill_(batch, examples, begin, end);
    return batch;
  }

 private:
  FillImages fill_;
  TokenShard captions_;
  SequenceTokens tokens_;
};

}  // namespace

Tensor image_values(const Tensor& image, const ImageOptions& options) {
  Tensor sized = with_channels(image, options.channels).contiguous();
  if (options.size > 0 && (sized.size(1) != options.size || sized.size(2) != options.size)) {
    sized = resize_image(sized, options.size, options.size);
  }
  const Tensor values = normalize_image(sized, options.mean, options.stddev);
  Shape shape = values.shape();
  shape.insert(0, 1);
  return values.alias(shape, contiguous_strides(shape), 0);
}

std::unique_ptr<Loader> make_image_loader(const ImageData& data, const ImageOptions& images,
                                          const LoaderOptions& options) {
  return std::make_unique<ImageLoader>(data, images, options);
}

std::unique_ptr<Loader> make_caption_loader(const ImageData& data, const ImageOptions& images,
                                            const TokenShard& captions,
                                            const SequenceTokens& tokens,
                                            const LoaderOptions& options) {
  auto pictures = std::make_shared<Pictures>(data, images);
  return std::make_unique<CaptionLoader>(
      [pictures](Batch& batch, const std::vector<int64_t>& examples, int64_t begin, int64_t end) {
        batch.pixel_values = pictures->values(examples, begin, end);
      },
      data.size(), pictures->fingerprint(), captions, tokens, options);
}

std::unique_ptr<Loader> make_caption_loader(const FeatureData& data, const TokenShard& captions,
                                            const SequenceTokens& tokens,
                                            const LoaderOptions& options) {
  const Tensor features = data.features.to(DType::f32).contiguous();
  return std::make_unique<CaptionLoader>(
      [features](Batch& batch, const std::vector<int64_t>& examples, int64_t begin, int64_t end) {
        batch.features = gather_rows(features, examples, begin, end);
      },
      features.size(0), fingerprint_of_tensor(features), captions, tokens, options);
}

}  // namespace heed
