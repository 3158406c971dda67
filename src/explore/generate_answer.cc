#include <chrono>

#include "base/check.h"
#include "explore/explorer_state.h"
#include "heed/generate.h"
#include "heed/ops.h"
#include "heed/tensor.h"
#include "models/registry.h"

namespace heed {

using explore::Failure;
using explore::Fields;
using explore::Watcher;

namespace {

struct GenerateRequest {
  std::string model, text;
  std::optional<std::string> image, features, pair;
  int64_t beams = 1;
  int64_t max_tokens = 32, candidates = 5, layer = -1, head = -1, top_k = 8;
  std::string kind;
  Sampling sampling;
};

GenerateRequest read_request(const Json& body) {
  const Fields f(body, {"model", "text", "pair", "image", "features", "max_tokens", "temperature",
                        "top_k", "top_p", "seed", "num_beams", "candidates", "attention"});
  GenerateRequest request;
  request.model = f.text("model");
  request.text = f.text_if("text").value_or("");
  request.image = f.text_if("image");
  request.features = f.text_if("features");
  request.pair = f.text_if("pair");
  request.beams = f.integer_or("num_beams", 1, 1, 16);
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

Tensor as_batch(const std::vector<TokenId>& ids) {
  return Tensor::from(ids, {1, static_cast<int64_t>(ids.size())});
}

/// What the encoder of a model with two stacks reads; nothing for a decoder.
ModelInput encoder_input(const ExplorerModel& model, const GenerateRequest& request) {
  ModelInput input;
  const ModelSpec& spec = model_spec(*model.model);
  if (spec.reads_features) {
    input.features = explore::feature_input(model, request.features);
  } else if (model.model->kind() == ModelKind::vision_decoder) {
    input.pixel_values = explore::image_input(model, request.image);
  } else if (model.model->kind() == ModelKind::encoder_decoder) {
    const std::vector<TokenId> ids = model.tokenizer.encode_ids(
        spec.reads_documents ? explore::text_with_document(*model.model, request.text, request.pair)
                             : request.text);
    if (ids.empty()) {
      throw Failure(400, "invalid", "the text has no tokens", "text");
    }
    input.input_ids = as_batch(ids);
    if (spec.reads_documents) {
      input.context_input_ids = input.input_ids;
      input.doc_scores = Tensor::zeros({1, 1});
    }
  }
  return input;
}

/// A step of a beam search: what was kept, each with what it continues.
std::string beams_event(const Tokenizer& tokenizer, int64_t step,
                        const std::vector<BeamStep>& kept) {
  JsonWriter json;
  json.begin_object().field("step", step).key("hypotheses").begin_array();
  for (size_t i = 0; i < kept.size(); ++i) {
    json.begin_object().field("beam", i).field("parent", step == 0 ? -1 : kept[i].parent);
    json.field("id", kept[i].id).field("token", explore::token_name(tokenizer, kept[i].id));
    json.field("score", kept[i].score).field("finished", kept[i].finished).end_object();
  }
  return json.end_array().end_object().take();
}

/// Thrown out of a search whose reader has gone.
struct ReaderGone {};

using OnEvent = std::function<bool(std::string_view event, const std::string& json)>;

/// Searches with beams; gives the best text's tokens, without the end token.
std::vector<TokenId> search_beams(const ExplorerModel& model, const GenerateRequest& request,
                                  const OnEvent& event) {
  Request rules;
  rules.encoder = encoder_input(model, request);
  if (model.model->kind() == ModelKind::decoder) {
    const std::vector<TokenId> ids = model.tokenizer.encode_ids(request.text);
    rules.prompt.assign(ids.begin(), ids.end());
  }
  rules.max_tokens = request.max_tokens;
  apply_generation_tokens(*model.model, rules);
  BeamOptions options;
  options.beams = request.beams;
  options.max_tokens = request.max_tokens;
  int64_t step = 0;
  options.on_step = [&](const std::vector<BeamStep>& kept) {
    if (!event("beams", beams_event(model.tokenizer, step++, kept))) {
      throw ReaderGone();
    }
  };
  const std::vector<Hypothesis> found = beam_search(*model.model, rules, options);
  std::vector<TokenId> ids;
  for (const int64_t id : found.empty() ? std::vector<int64_t>() : found.front().ids) {
    if (std::find(rules.end.begin(), rules.end.end(), id) == rules.end.end()) {
      ids.push_back(id);
    }
  }
  return ids;
}

/// Writes a text token by token, each by a whole pass that is watched.
class Writer {
 public:
  Writer(const ExplorerModel& model, const GenerateRequest& request)
      : model_(model),
        request_(request),
        tokens_(generation_tokens(*model.model)),
        encoder_(encoder_input(model, request)) {
    const bool two = model.model->kind() != ModelKind::decoder;
    ids_ = two ? std::vector<TokenId>{tokens_.decoder_start}
               : model.tokenizer.encode_ids(request.text);
    start_ = ids_.size();
    if (ids_.empty()) {
      throw Failure(400, "invalid", "the text has no tokens", "text");
    }
  }

  /// The data of the next event; nothing where the text has ended. `forced` is written whatever the
  /// model prefers.
  std::optional<std::string> next(std::optional<TokenId> forced = std::nullopt) {
    const int64_t context = model_.model->decoder_context_length();
    const auto written = static_cast<int64_t>(ids_.size() - start_);
    if (written >= request_.max_tokens ||
        (context > 0 && std::cmp_greater_equal(ids_.size(), context))) {
      return std::nullopt;
    }
    Watcher watcher;
    watcher.attentions = true;
    const Tensor logits = last_logits();
    const TokenId chosen =
        forced ? *forced
               : sample_token(logits.data<float>(), logits.numel(), request_.sampling, 0,
                              static_cast<uint64_t>(written), ids_)
                     .id;
    if (std::find(tokens_.end.begin(), tokens_.end.end(), chosen) != tokens_.end.end()) {
      reason_ = "stop";
      return std::nullopt;
    }
    ids_.push_back(chosen);
    return event(written, logits, chosen, watcher);
  }

  std::vector<TokenId> written() const {
    return {ids_.begin() + static_cast<std::ptrdiff_t>(start_), ids_.end()};
  }
  const std::string& reason() const { return reason_; }

 private:
  Tensor last_logits() const {
    ModelInput input = encoder_;
    (model_.model->kind() == ModelKind::decoder ? input.input_ids : input.decoder_input_ids) =
        as_batch(ids_);
    const Tensor logits = model_.model->forward(input).logits.to(DType::f32);
    return reshape(slice(logits, 1, logits.size(1) - 1, logits.size(1)), {logits.size(2)})
        .contiguous();
  }

  std::string event(int64_t index, const Tensor& logits, int64_t chosen,
                    const Watcher& watcher) const {
    const std::vector<double> row = logits.to_doubles();
    const std::vector<double> probabilities = explore::softmax_of(row);
    JsonWriter token;
    explore::write_tokens(token, {explore::shown_tokens(model_.tokenizer, written()).back()});
    JsonWriter json;
    json.begin_object().field("index", index).key("token");
    json.raw(token.text().substr(1, token.text().size() - 2));  // the only one of its list
    json.field("probability", probabilities[static_cast<size_t>(chosen)]);
    json.key("candidates").begin_array();
    const auto likeliest = top_attended(reshape(logits, {1, logits.numel()}), request_.candidates);
    for (const Attended& each : likeliest.front()) {
      json.begin_object().field("id", each.key);
      json.field("token", explore::token_name(model_.tokenizer, each.key));
      json.field("logit", row[static_cast<size_t>(each.key)]);
      json.field("probability", probabilities[static_cast<size_t>(each.key)]).end_object();
    }
    json.end_array();
    write_attention(json, watcher, request_);
    return json.end_object().take();
  }

  const ExplorerModel& model_;
  const GenerateRequest& request_;
  GenerationTokens tokens_;
  ModelInput encoder_;
  std::vector<TokenId> ids_;
  size_t start_ = 0;
  std::string reason_ = "length";
};

}  // namespace

Explorer::Answer Explorer::generate(
    std::string_view text,
    const std::function<bool(std::string_view event, const std::string& json)>& event) {
  return State::answered([&]() -> std::string {
    const NoGrad no_grad;
    const GenerateRequest request = read_request(State::parse_body(text));
    const std::lock_guard lock(state_->mutex);
    const ExplorerModel model = state_->model(request.model);
    const ModelKind kind = model.model->kind();
    const bool writes = kind == ModelKind::decoder || kind == ModelKind::encoder_decoder ||
                        kind == ModelKind::vision_decoder;
    if (!writes || !model.tokenizer) {
      throw Failure(409, "unsupported", "this model writes no text", "model");
    }
    const auto began = std::chrono::steady_clock::now();
    std::vector<TokenId> written;
    std::string reason = "stop";
    Writer writer(model, request);
    if (request.beams > 1) {
      try {
        written = search_beams(model, request, event);
      } catch (const ReaderGone&) {
        return "{}";
      }
      for (const TokenId id : written) {  // the best text again, with what each token looked at
        const std::optional<std::string> next = writer.next(id);
        if (!next || !event("token", *next)) {
          break;
        }
      }
    } else {
      while (const std::optional<std::string> next = writer.next()) {
        if (!event("token", *next)) {
          return "{}";  // the reader has gone
        }
      }
      written = writer.written();
      reason = writer.reason();
    }
    const auto count = written.size();
    std::erase_if(written, [&](TokenId id) { return id >= model.tokenizer.vocab_size(); });
    JsonWriter done;
    done.begin_object().field("text", model.tokenizer.decode(written));
    done.field("tokens", count);
    done.field("seconds",
               std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    event("done", done.field("finish_reason", reason).end_object().take());
    return "{}";
  });
}

}  // namespace heed
