#include "pipelines/batches.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/language.h"
#include "base/parallel.h"
#include "base/utf8.h"
#include "heed/io.h"
#include "heed/runtime.h"

namespace heed {
namespace {

std::string_view kind_name(ModelKind kind) {
  switch (kind) {
    case ModelKind::decoder:
      return say("a decoder");
    case ModelKind::encoder:
      return say("an encoder");
    case ModelKind::encoder_decoder:
      return say("an encoder-decoder");
    case ModelKind::vision:
      return say("a model of images");
    case ModelKind::vision_decoder:
      return say("an image-to-text model");
    case ModelKind::speech_decoder:
      return say("a speech recognition model");
    case ModelKind::image_text:
      return say("a model of images and texts");
    case ModelKind::regressor:
      return say("a model of numbers");
  }
  return say("another model");
}

/// The ids of a text that is too long, cut so that the special tokens around it stay.
std::vector<TokenId> truncated(const Tokenizer& tokenizer, const std::string& text,
                               int64_t max_length) {
  Tokenizer::BatchOptions options;
  options.truncation = Truncation();
  if (tokenizer.truncation()) {
    options.truncation = tokenizer.truncation();
  }
  options.truncation->max_length = max_length;
  return std::move(tokenizer.encode_batch(std::span(&text, 1), options).front().ids);
}

}  // namespace

void check_suits(bool suits, std::string_view task, std::string_view needs,
                 const LoadedModel& loaded) {
  if (!suits) {
    fail(ErrorKind::usage, loaded.path.native(), "`{}` needs {}; this folder holds {} ({}).", task,
         needs, kind_name(loaded.model->kind()), loaded.model->model_type());
  }
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

void report_error(const RunOptions& run, std::string_view task, size_t input,
                  const std::string& message) {
  if (!run.on_error) {
    fail(ErrorKind::runtime, task, "input {}: {}", input, message);
  }
  run.on_error(input, message);
}

int64_t max_input_length(const LoadedModel& loaded) {
  const int64_t context = loaded.model->context_length();
  const auto& wanted = loaded.tokenizer.truncation();
  if (!wanted || wanted->max_length <= 0) {
    return context;
  }
  return context == 0 ? wanted->max_length : std::min(context, wanted->max_length);
}

TokenBatch encode_inputs(const LoadedModel& loaded, const std::vector<std::string>& texts,
                         std::string_view task, int64_t max_length, bool truncate,
                         const RunOptions& run) {
  constexpr size_t kQuoted = 40;  // bytes: enough of a text to find it by
  TokenBatch batch;
  batch.ids.resize(texts.size());
  parallel_for(static_cast<int64_t>(texts.size()), [&](int64_t i) {
    batch.ids[static_cast<size_t>(i)] =
        loaded.tokenizer.encode_ids(texts[static_cast<size_t>(i)], true);
  });
  for (size_t i = 0; i < texts.size(); ++i) {
    std::vector<TokenId>& ids = batch.ids[i];
    const auto length = static_cast<int64_t>(ids.size());
    if (length == 0) {
      report_error(run, task, i, fmt::format(say("{} has no tokens"), quote(texts[i], kQuoted)));
      continue;
    }
    if (max_length > 0 && length > max_length) {
      if (!truncate) {
        report_error(run, task, i,
                     fmt::format(say("{} has {} tokens; the model takes {}"),
                                 quote(texts[i], kQuoted), length, max_length));
        ids.clear();
        continue;
      }
      ids = truncated(loaded.tokenizer, texts[i], max_length);
      if (run.on_warning) {
        run.on_warning(i, fmt::format(say("{} has {} tokens; only {} of them were read"),
                                      quote(texts[i], kQuoted), length, ids.size()));
      }
    }
  }
  return batch;
}

std::vector<int64_t> lengths_of(const TokenBatch& batch) {
  std::vector<int64_t> lengths;
  lengths.reserve(batch.ids.size());
  for (const auto& ids : batch.ids) {
    lengths.push_back(static_cast<int64_t>(ids.size()));
  }
  return lengths;
}

void for_each_batch(const std::vector<int64_t>& lengths, std::string_view task,
                    const RunOptions& run,
                    const std::function<void(const std::vector<size_t>&)>& fn) {
  check(run.batch_size >= 1, task, "a batch of {} inputs", run.batch_size);
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t i) { return lengths[i] == 0; });
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lengths[a] < lengths[b]; });
  const auto step = static_cast<size_t>(run.batch_size);
  const StopScope scope(run.stop);
  for (size_t begin = 0; begin < order.size(); begin += step) {
    check(!run.stop.stop_requested(), task, "stopped after {} of {} inputs", begin, order.size());
    const size_t end = std::min(order.size(), begin + step);
    fn(std::vector<size_t>(order.begin() + static_cast<std::ptrdiff_t>(begin),
                           order.begin() + static_cast<std::ptrdiff_t>(end)));
    if (run.progress) {
      run.progress(static_cast<int64_t>(lengths.size() - (order.size() - end)),
                   static_cast<int64_t>(lengths.size()));
    }
  }
}

ModelInput padded_input(const TokenBatch& batch, const std::vector<size_t>& indices) {
  size_t longest = 1;
  for (const size_t i : indices) {
    longest = std::max(longest, batch.ids[i].size());
  }
  const Shape shape{static_cast<int64_t>(indices.size()), static_cast<int64_t>(longest)};
  ModelInput input;
  input.input_ids = Tensor::zeros(shape, DType::i64);
  input.attention_mask = Tensor::zeros(shape, DType::i64);
  input.skip_padding = true;
  for (size_t row = 0; row < indices.size(); ++row) {
    const auto& ids = batch.ids[indices[row]];
    std::copy(ids.begin(), ids.end(), input.input_ids.data<int64_t>() + row * longest);
    std::fill_n(input.attention_mask.data<int64_t>() + row * longest, ids.size(), 1);
  }
  return input;
}

}  // namespace heed
