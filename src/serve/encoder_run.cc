#include "serve/encoder_run.h"

#include <fmt/format.h>

#include "models/forward.h"
#include "pipelines/sentence_modules.h"
#include "serve/service.h"
#include "serve/text_run.h"

namespace heed::serve {
namespace {

void check_length(const LoadedModel& model, const EncodedText& text, const std::string& param) {
  const auto length = static_cast<int64_t>(text.ids.size());
  if (length == 0) {
    throw BadRequest(fmt::format("'{}' holds a text without a token", param), param);
  }
  if (model.context_length() > 0 && length > model.context_length()) {
    throw BadRequest(fmt::format("'{}' is too large: a text of {} tokens; the context of {} has {}",
                                 param, length, model.name, model.context_length()),
                     param, "context_length_exceeded");
  }
}

/// The state that the tasks of one call share. Only the engine's thread changes it.
struct Gathering {
  CallPtr call;
  std::function<void(size_t, const ModelOutput&, int64_t, int64_t)> on_output;
  std::function<void(int64_t)> on_done;
  size_t left = 0;
  int64_t tokens = 0;
  bool failed = false;

  void fail(const std::string& message) {
    if (!failed) {
      failed = true;
      call->fail(500, message);
    }
  }
};

}  // namespace

EncodedText encode_text(const LoadedModel& model, const std::string& text, const std::string& param,
                        bool truncate) {
  EncodedText encoded;
  encoded.ids = model.tokenizer.encode_ids(text, true);
  if (truncate && model.context_length() > 0 &&
      static_cast<int64_t>(encoded.ids.size()) > model.context_length()) {
    Tokenizer::BatchOptions options;
    options.truncation = Truncation{.max_length = model.context_length()};
    encoded.ids = model.tokenizer.encode_batch(std::vector{text}, options).front().ids;
  }
  check_length(model, encoded, param);
  return encoded;
}

EncodedText encode_text_pair(const LoadedModel& model, const std::string& first,
                             const std::string& second, const std::string& param, bool truncate) {
  Tokenizer::BatchOptions options;
  if (truncate && model.context_length() > 0) {
    options.truncation = Truncation{.max_length = model.context_length(),
                                    .strategy = Truncation::Strategy::only_second};
  }
  const std::vector<std::pair<std::string, std::string>> pairs{{first, second}};
  Encoding encoding = std::move(model.tokenizer.encode_batch(pairs, options).front());
  EncodedText encoded{std::move(encoding.ids), {}};
  if (reads_token_types(*model.model)) {
    encoded.type_ids = std::move(encoding.type_ids);
  }
  check_length(model, encoded, param);
  return encoded;
}

void run_encoder(const CallPtr& call, std::vector<EncodedText> texts,
                 std::function<void(size_t, const ModelOutput&, int64_t, int64_t)> on_output,
                 std::function<void(int64_t)> on_done) {
  auto gathering = std::make_shared<Gathering>();
  gathering->call = call;
  gathering->on_output = std::move(on_output);
  gathering->on_done = std::move(on_done);
  gathering->left = texts.size();
  for (size_t i = 0; i < texts.size(); ++i) {
    gathering->tokens += static_cast<int64_t>(texts[i].ids.size());
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    EncoderTask task;
    task.model = call->model;
    task.client = call->client;
    task.ids = std::move(texts[i].ids);
    task.type_ids = std::move(texts[i].type_ids);
    task.cancelled = [call] { return call->exchange->cancelled(); };
    task.on_error = [gathering](const std::string& message) { gathering->fail(message); };
    task.on_output = [gathering, i](const ModelOutput& output, int64_t row, int64_t length) {
      if (gathering->failed) {
        return;
      }
      answer_errors(gathering->call, [&] {
        gathering->on_output(i, output, row, length);
        if (--gathering->left == 0) {
          annotate_usage(*gathering->call, {gathering->tokens, 0});
          gathering->on_done(gathering->tokens);
        }
      });
    };
    call->service.engine().submit(std::move(task));
  }
}

std::vector<float> pooled_embedding(const LoadedModel& model, const ModelOutput& output,
                                    int64_t row, int64_t length) {
  const Tensor& hidden = output.last_hidden_state;
  const int64_t width = hidden.size(2);
  std::vector<float> vector(static_cast<size_t>(width));
  pool_rows(hidden.data<float>() + row * hidden.size(1) * width, length, width, model.pooling,
            /*normalize=*/true, vector.data());
  return vector;
}

}  // namespace heed::serve
