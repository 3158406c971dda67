#include <chrono>

#include "base/check.h"
#include "explore/explorer_state.h"
#include "heed/autograd.h"
#include "heed/generate.h"
#include "heed/ops.h"

namespace heed {

using explore::Failure;
using explore::Fields;
using explore::Watcher;

namespace {

struct GenerateRequest {
  int64_t max_tokens = 32, candidates = 5, layer = -1, head = -1, top_k = 8;
  std::string kind;
  Sampling sampling;
};

GenerateRequest read_request(const Json& body) {
  const Fields f(body, {"model", "text", "image", "max_tokens", "temperature", "top_k", "top_p",
                        "seed", "num_beams", "candidates", "attention"});
  GenerateRequest request;
  request.max_tokens = f.integer_or("max_tokens", 32, 1, 1024);
  request.candidates = f.integer_or("candidates", 5, 1, 100);
  request.sampling.temperature = f.number_or("temperature", 0.0, 0.0, 100.0);
  request.sampling.top_k = f.integer_or("top_k", 0, 0, 1 << 20);
  request.sampling.top_p = f.number_or("top_p", 1.0, 0.0, 1.0);
  request.sampling.seed = static_cast<uint64_t>(f.integer_or("seed", 0, 0, INT64_MAX));
  if (f.has("attention")) {
    const Fields a(body.at("attention"), {"kind", "layer", "head", "top_k"});
    request.kind = a.text_if("kind").value_or("");
    request.layer = a.integer_or("layer", -1, -1, INT32_MAX);
    request.head = a.integer_or("head", -1, -1, INT32_MAX);
    request.top_k = a.integer_or("top_k", 8, 1, 64);
  }
  return request;
}

/// The strongest keys of the last query, of one head or of the mean of all.
void write_attention(JsonWriter& json, const Watcher& watcher, const GenerateRequest& request) {
  const RecordedAttention* chosen = nullptr;
  for (const RecordedAttention& each : watcher.recorded) {
    const bool kind = request.kind.empty()
                          ? each.place.kind != "encoder" && each.place.kind != "decoder"
                          : each.place.kind == request.kind;
    if (kind && (request.layer < 0 || request.layer == each.place.layer)) {
      chosen = &each;
    }
  }
  if (chosen == nullptr) {
    throw Failure(404, "not_found", "there is no such attention", "attention");
  }
  const int64_t last = chosen->queries() - 1;
  std::vector<double> weights(static_cast<size_t>(chosen->keys()), 0.0);
  const int64_t first = request.head < 0 ? 0 : std::min(request.head, chosen->heads() - 1);
  const int64_t end = request.head < 0 ? chosen->heads() : first + 1;
  for (int64_t head = first; head < end; ++head) {
    const std::vector<double> each =
        chosen->record.weights(0, head, last, last + 1, 0, chosen->keys()).to_doubles();
    for (size_t i = 0; i < weights.size(); ++i) {
      weights[i] += each[i] / static_cast<double>(end - first);
    }
  }
  const Tensor row = Tensor::from(weights, {1, chosen->keys()}).to(DType::f32);
  json.key("attention").begin_object().field("kind", chosen->place.kind);
  json.field("layer", chosen->place.layer).field("head", request.head);
  json.field("keys", chosen->keys()).key("top").begin_array();
  const auto strongest = top_attended(row, std::min(request.top_k, chosen->keys()));
  for (const Attended& each : strongest.front()) {
    json.begin_object().field("key", each.key).field("weight", each.weight).end_object();
  }
  json.end_array().end_object();
}

}  // namespace

Explorer::Answer Explorer::generate(
    std::string_view text,
    const std::function<bool(std::string_view event, const std::string& json)>& event) {
  return State::answered([&]() -> std::string {
    const NoGrad no_grad;
    const Json body = State::parse_body(text);
    const GenerateRequest request = read_request(body);
    const std::lock_guard lock(state_->mutex);
    const ExplorerModel model =
        state_->model(Fields(body, {"model", "text", "image", "max_tokens", "temperature", "top_k",
                                    "top_p", "seed", "num_beams", "candidates", "attention"})
                          .text("model"));
    const bool pair = model.model->kind() == ModelKind::encoder_decoder;
    if ((model.model->kind() != ModelKind::decoder && !pair) || !model.tokenizer) {
      throw Failure(409, "unsupported", "this model writes no text", "model");
    }
    const auto began = std::chrono::steady_clock::now();
    const GenerationTokens tokens = generation_tokens(*model.model);
    const auto as_batch = [](const std::vector<int32_t>& ids) {
      const std::vector<int64_t> wide(ids.begin(), ids.end());
      return Tensor::from(wide, {1, static_cast<int64_t>(wide.size())});
    };
    const std::vector<int32_t> prompt = model.tokenizer.encode_ids(body.string_or("text", ""));
    std::vector<int32_t> ids =
        pair ? std::vector<int32_t>{static_cast<int32_t>(tokens.decoder_start)} : prompt;
    const size_t start = ids.size();
    if (ids.empty()) {
      throw Failure(400, "invalid", "the text has no tokens", "text");
    }
    std::string reason = "length";
    for (int64_t i = 0; i < request.max_tokens; ++i) {
      const int64_t context = model.model->context_length();
      if (context > 0 && std::cmp_greater_equal(ids.size(), context)) {
        break;
      }
      ModelInput input;
      input.input_ids = as_batch(pair ? prompt : ids);
      if (pair) {
        input.decoder_input_ids = as_batch(ids);
      }
      Watcher watcher;
      watcher.attentions = true;
      const Tensor logits = model.model->forward(input).logits.to(DType::f32).contiguous();
      const int64_t vocabulary = logits.size(2);
      const Tensor last =
          reshape(slice(logits, 1, logits.size(1) - 1, logits.size(1)), {vocabulary}).contiguous();
      const std::vector<double> row = last.to_doubles();
      const std::vector<double> probabilities = explore::softmax_of(row);
      const SampledToken chosen =
          sample_token(last.data<float>(), vocabulary, request.sampling, 0,
                       static_cast<uint64_t>(i), std::vector<int64_t>(ids.begin(), ids.end()));
      if (std::find(tokens.end.begin(), tokens.end.end(), chosen.id) != tokens.end.end()) {
        reason = "stop";
        break;
      }
      ids.push_back(static_cast<int32_t>(chosen.id));
      const std::vector<explore::ShownToken> shown = explore::shown_tokens(
          model.tokenizer,
          std::vector<int32_t>(ids.begin() + static_cast<std::ptrdiff_t>(start), ids.end()));
      JsonWriter one;
      explore::write_tokens(one, {shown.back()});
      JsonWriter json;
      json.begin_object().field("index", i).key("token");
      json.raw(one.text().substr(1, one.text().size() - 2));
      json.field("probability", probabilities[static_cast<size_t>(chosen.id)]);
      json.key("candidates").begin_array();
      const Tensor candidates = Tensor::from(row, {1, vocabulary}).to(DType::f32);
      const auto likeliest = top_attended(candidates, request.candidates);
      for (const Attended& each : likeliest.front()) {
        json.begin_object().field("id", each.key);
        json.field("token",
                   token_labels({static_cast<int32_t>(each.key)}, model.tokenizer).front());
        json.field("logit", row[static_cast<size_t>(each.key)]);
        json.field("probability", probabilities[static_cast<size_t>(each.key)]).end_object();
      }
      json.end_array();
      write_attention(json, watcher, request);
      if (!event("token", json.end_object().take())) {
        return "{}";
      }
    }
    JsonWriter done;
    const std::vector<int32_t> written(ids.begin() + static_cast<std::ptrdiff_t>(start), ids.end());
    done.begin_object().field("text", model.tokenizer.decode(written));
    done.field("tokens", written.size());
    done.field("seconds",
               std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    event("done", done.field("finish_reason", reason).end_object().take());
    return "{}";
  });
}

}  // namespace heed
