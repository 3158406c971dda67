#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heed/ops.h"
#include "serve/encoder_run.h"
#include "serve/handlers.h"
#include "serve/image_field.h"
#include "serve/service.h"

namespace heed::serve {
namespace {

struct Scored {
  size_t index;
  double score;
};

/// The likeliest labels first.
std::vector<Scored> best_first(const std::vector<double>& scores, int64_t most) {
  std::vector<Scored> order;
  for (size_t i = 0; i < scores.size(); ++i) {
    order.push_back({i, scores[i]});
  }
  const size_t count = most > 0 ? std::min(order.size(), static_cast<size_t>(most)) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [](const Scored& a, const Scored& b) {
                      return a.score > b.score || (a.score == b.score && a.index < b.index);
                    });
  order.resize(count);
  return order;
}

std::vector<double> softmax_of(const float* logits, int64_t count) {
  const double best = *std::max_element(logits, logits + count);
  std::vector<double> values(static_cast<size_t>(count));
  double total = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    total += values[static_cast<size_t>(i)] = std::exp(logits[i] - best);
  }
  for (double& value : values) {
    value /= total;
  }
  return values;
}

std::vector<double> label_scores(const LoadedModel& model, const float* logits, int64_t count) {
  if (!model.multi_label && count > 1) {
    return softmax_of(logits, count);
  }
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(1.0 / (1.0 + std::exp(-static_cast<double>(logits[i]))));
  }
  return values;
}

void write_usage_of(JsonWriter& json, int64_t tokens) {
  json.key("usage").begin_object().field("prompt_tokens", tokens);
  json.field("total_tokens", tokens).end_object();
}

void reply_labels(const Call& call, const std::vector<std::vector<double>>& scores,
                  int64_t tokens) {
  JsonWriter json;
  json.begin_object().field("object", "list").field("model", call.model_name);
  json.key("data").begin_array();
  for (size_t i = 0; i < scores.size(); ++i) {
    const auto order = best_first(scores[i], call.integer("top_k"));
    json.begin_object().field("index", i);
    json.field("label", call.model->labels[order.front().index]);
    json.field("score", order.front().score).key("scores").begin_array();
    for (const Scored& each : order) {
      json.begin_object().field("label", call.model->labels[each.index]);
      json.field("score", each.score).end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
  write_usage_of(json, tokens);
  call.reply(json.end_object().take());
}

/// All images of the request in one pass.
void classify_images(const CallPtr& call) {
  if (call->has("input")) {
    throw BadRequest(fmt::format("{} reads images, not texts; send 'image'", call->model->name),
                     "input");
  }
  std::vector<Tensor> pixels = read_images(*call, "image");
  SingleTask task;
  task.model = call->model;
  task.client = call->client;
  task.cancelled = [call] { return call->exchange->cancelled(); };
  task.on_error = [call](const std::string& message) { call->fail(500, message); };
  task.run = [call, pixels = std::move(pixels)] {
    ModelInput input;
    input.pixel_values = concat(pixels, 0);
    const Tensor logits = call->model->model->forward(input).logits.to(DType::f32).contiguous();
    const int64_t labels = logits.size(1);
    std::vector<std::vector<double>> scores;
    for (int64_t row = 0; row < logits.size(0); ++row) {
      scores.push_back(label_scores(*call->model, logits.data<float>() + row * labels, labels));
    }
    reply_labels(*call, scores, 0);
  };
  call->service.engine().submit(std::move(task));
}

/// Positions of the mask token; BadRequest where there is none.
std::vector<int64_t> mask_positions(const LoadedModel& model, const EncodedText& text) {
  const std::optional<TokenId> mask = model.tokenizer.special().mask;
  std::vector<int64_t> positions;
  for (size_t i = 0; mask && i < text.ids.size(); ++i) {
    if (text.ids[i] == *mask) {
      positions.push_back(static_cast<int64_t>(i));
    }
  }
  if (positions.empty()) {
    throw BadRequest(
        fmt::format("'input' holds a text without the mask token {}",
                    mask ? model.tokenizer.id_to_token(*mask) : "(the model has none)"),
        "input");
  }
  return positions;
}

}  // namespace

void answer_classify(const CallPtr& call) {
  if (call->model->abilities.classify_image) {
    classify_images(call);
    return;
  }
  if (call->has("image")) {
    throw BadRequest(fmt::format("{} reads texts, not images; send 'input'", call->model->name),
                     "image");
  }
  const std::vector<std::string> input = call->texts("input");
  if (input.empty()) {
    throw BadRequest("'input' is missing or an empty list", "input");
  }
  std::vector<EncodedText> texts;
  texts.reserve(input.size());
  for (const std::string& text : input) {
    texts.push_back(encode_text(*call->model, text, "input", call->flag("truncate")));
  }
  const auto scores = std::make_shared<std::vector<std::vector<double>>>(texts.size());
  run_encoder(
      call, std::move(texts),
      [call, scores](size_t i, const ModelOutput& output, int64_t row, int64_t) {
        const int64_t labels = output.logits.size(1);
        (*scores)[i] =
            label_scores(*call->model, output.logits.data<float>() + row * labels, labels);
      },
      [call, scores](int64_t tokens) { reply_labels(*call, *scores, tokens); });
}

void answer_fill_mask(const CallPtr& call) {
  struct Mask {
    int64_t position;
    std::vector<Scored> best;
  };
  const std::vector<std::string> input = call->texts("input");
  if (input.empty()) {
    throw BadRequest("'input' is an empty list", "input");
  }
  std::vector<EncodedText> texts;
  auto masks = std::make_shared<std::vector<std::vector<Mask>>>();
  for (const std::string& text : input) {
    texts.push_back(encode_text(*call->model, text, "input"));
    masks->emplace_back();
    for (const int64_t position : mask_positions(*call->model, texts.back())) {
      masks->back().push_back({position, {}});
    }
  }
  const int64_t most = call->integer("top_k");
  run_encoder(
      call, std::move(texts),
      [masks, most](size_t i, const ModelOutput& output, int64_t row, int64_t) {
        const int64_t length = output.logits.size(1), vocabulary = output.logits.size(2);
        for (Mask& mask : (*masks)[i]) {
          const float* logits =
              output.logits.data<float>() + (row * length + mask.position) * vocabulary;
          mask.best = best_first(softmax_of(logits, vocabulary), most);
        }
      },
      [call, masks](int64_t tokens) {
        JsonWriter json;
        json.begin_object().field("object", "list").field("model", call->model_name);
        json.key("data").begin_array();
        for (size_t i = 0; i < masks->size(); ++i) {
          json.begin_object().field("index", i).key("masks").begin_array();
          for (const Mask& mask : (*masks)[i]) {
            json.begin_object().field("position", mask.position).key("candidates").begin_array();
            for (const Scored& each : mask.best) {
              const auto id = static_cast<TokenId>(each.index);
              json.begin_object().field("token", call->model->tokenizer.id_to_token(id));
              json.field("id", id).field("probability", each.score).end_object();
            }
            json.end_array().end_object();
          }
          json.end_array().end_object();
        }
        json.end_array();
        write_usage_of(json, tokens);
        call->reply(json.end_object().take());
      });
}

}  // namespace heed::serve
