#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include "base/base64.h"
#include "explore/trace.h"
#include "heed/generate.h"
#include "heed/io.h"
#include "heed/ops.h"
#include "heed/tensor.h"
#include "models/forward.h"
#include "models/registry.h"
#include "pipelines/image_input.h"
#include "pipelines/speech_decoding.h"

namespace heed::explore {
namespace {

constexpr int64_t kMostGenerated = 64;

Tensor as_batch(const std::vector<TokenId>& ids) {
  return Tensor::from(ids, {1, static_cast<int64_t>(ids.size())});
}

LoadedModel as_loaded(const ExplorerModel& model) {
  return {model.path, model.model, model.tokenizer};
}

/// False for a bare model, which gives vectors.
bool writes_text(const Model& model) {
  const ModelHead* head = head_of(model);
  return head == nullptr || !head->task.empty();
}

/// What Whisper reads behind <|startoftranscript|>: language and task, and that no timestamps
/// follow.
std::vector<TokenId> speech_prompt(const ExplorerModel& model, const ModelInput& input) {
  const SpeechTokens tokens = speech_tokens(as_loaded(model));
  const NoGrad no_grad;
  const std::string language =
      tokens.languages.empty()
          ? "en"
          : detect_language(*model.model, tokens, model.model->encode(input)).first;
  std::vector<TokenId> ids;
  for (const int64_t id : start_of_transcript(tokens, language, "transcribe")) {
    ids.push_back(id);
  }
  ids.erase(ids.begin());  // the start token, which every decoder begins with
  if (tokens.no_timestamps >= 0) {
    ids.push_back(tokens.no_timestamps);
  }
  return ids;
}

/// The start token, `prompt` and what the model itself would write, the likeliest token at each
/// step.
std::vector<TokenId> likeliest_target(const ExplorerModel& explorer, const ModelInput& input,
                                      int64_t start, const std::vector<TokenId>& prompt) {
  const Model& model = *explorer.model;
  std::vector<TokenId> ids{start};
  ids.insert(ids.end(), prompt.begin(), prompt.end());
  Request request;
  request.encoder = input;
  request.max_tokens = kMostGenerated;
  apply_generation_tokens(model, request);
  if (!prompt.empty()) {
    request.prompt.assign(prompt.begin(), prompt.end());
    const SpeechTokens tokens = speech_tokens(as_loaded(explorer));
    request.suppress_tokens = tokens.suppressed;
    for (int64_t id = tokens.timestamp_begin(); id > 0 && id < model.vocab_size(); ++id) {
      request.suppress_tokens.push_back(id);
    }
  }
  const std::vector<int64_t> end = request.end;
  request.on_token = [&ids, &end,
                      context = model.decoder_context_length()](const SampledToken& choice) {
    const bool ends = std::find(end.begin(), end.end(), choice.id) != end.end();
    if (!ends && (context == 0 || std::cmp_less(ids.size(), context))) {
      ids.push_back(choice.id);
    }
    return true;
  };
  Scheduler scheduler(model, 1);
  scheduler.add(std::move(request));
  scheduler.run();
  return ids;
}

}  // namespace

void Trace::check_ids(const std::vector<TokenId>& ids, const char* param) const {
  const int64_t most = model_.model->vocab_size();
  const bool known =
      std::all_of(ids.begin(), ids.end(), [most](TokenId id) { return id >= 0 && id < most; });
  const int64_t context = model_.model->context_length();
  if (!known || (ids.empty() && std::string_view(param) == "ids")) {
    throw Failure(400, "invalid", fmt::format("'{}' must hold token ids of the model", param),
                  param);
  }
  if (context > 0 && std::cmp_greater(ids.size(), context)) {
    throw Failure(413, "too_large",
                  fmt::format("the text has {} tokens; the model takes {}", ids.size(), context),
                  param);
  }
}

std::string text_with_document(const Model& model, const std::string& question,
                               const std::optional<std::string>& document) {
  const Json& config = model.config();
  return document ? config.string_or("prefix", "") + *document +
                        config.string_or("doc_sep", " // ") + question
                  : question;
}

void Trace::read_text(bool with_target) {
  if (!model_.tokenizer) {
    throw Failure(409, "unsupported", "this model has no tokenizer", "model");
  }
  if (request_.ids) {
    check_ids(*request_.ids, "ids");
    input_.input_ids = as_batch(*request_.ids);
    source_ = shown_tokens(model_.tokenizer, *request_.ids);
    return;
  }
  if (!request_.text) {
    throw Failure(400, "invalid", "'text' is missing", "text");
  }
  const bool documents = model_spec(*model_.model).reads_documents;
  const std::string text =
      documents ? text_with_document(*model_.model, *request_.text, request_.pair) : *request_.text;
  const Encoding encoding = request_.pair && !documents
                                ? model_.tokenizer.encode_pair(text, *request_.pair)
                                : model_.tokenizer.encode(text);
  if (encoding.ids.empty()) {
    throw Failure(400, "invalid", "the text has no tokens", "text");
  }
  const int64_t context = model_.model->context_length();
  if (context > 0 && std::cmp_greater(encoding.ids.size(), context) && !with_target) {
    throw Failure(
        413, "too_large",
        fmt::format("the text has {} tokens; the model takes {}", encoding.ids.size(), context),
        "text");
  }
  input_.input_ids = as_batch(encoding.ids);
  source_ = shown_tokens(model_.tokenizer, encoding, text);
  offsets_ = encoding.offsets;
  if (documents) {  // one of them, which has all of the probability
    input_.context_input_ids = input_.input_ids;
    input_.doc_scores = Tensor::zeros({1, 1});
  } else if (request_.pair) {
    size_t before = model_.tokenizer.encode_ids(text, false).size();  // tokens of the first text
    for (; std::cmp_less(passage_, encoding.ids.size()); ++passage_) {
      const bool own = encoding.special_tokens_mask[static_cast<size_t>(passage_)] == 0;
      if (own && before-- == 0) {
        break;
      }
    }
  }
  if (request_.pair && !documents && reads_token_types(*model_.model)) {
    input_.token_type_ids = as_batch(encoding.type_ids);
  }
  if (model_spec(*model_.model).points_at_tokens) {
    // A reader is asked about the last "it" of the text, else about its last word.
    const std::vector<std::string> wanted =
        request_.ask ? std::vector{*request_.ask}
                     : std::vector<std::string>{"it", "It", "그것은", "그것이"};
    size_t asked = source_.size();
    for (size_t i = 0; i < source_.size(); ++i) {
      asked = std::find(wanted.begin(), wanted.end(), source_[i].label) != wanted.end() ? i : asked;
    }
    if (asked == source_.size() && request_.ask) {
      throw Failure(400, "invalid", fmt::format("the text has no word '{}'", *request_.ask), "ask");
    }
    asked = std::min(asked, source_.size() - 1);
    asked_ = static_cast<int64_t>(asked);
    input_.token_type_ids = Tensor::zeros({1, input_.input_ids.size(1)}, DType::i64);
    input_.token_type_ids.data<int64_t>()[asked] = 1;
  }
}

void Trace::add_target() {
  if (!model_.tokenizer) {
    throw Failure(409, "unsupported", "this model has no tokenizer", "model");
  }
  const int64_t start = generation_tokens(*model_.model).decoder_start;
  if (start < 0) {
    throw Failure(409, "unsupported", "config.json names no decoder_start_token_id", "model");
  }
  std::vector<TokenId> ids;
  const bool speech = model_.model->kind() == ModelKind::speech_decoder;
  const std::vector<TokenId> prompt =
      speech ? speech_prompt(model_, input_) : std::vector<TokenId>();
  if (request_.target_ids) {
    check_ids(*request_.target_ids, "target_ids");
    ids.push_back(start);
    ids.insert(ids.end(), request_.target_ids->begin(), request_.target_ids->end());
  } else if (request_.target) {
    ids.push_back(start);
    ids.insert(ids.end(), prompt.begin(), prompt.end());
    model_.tokenizer.append_ids(*request_.target, ids);
  } else if (!writes_text(*model_.model)) {
    ids.push_back(start);
  } else {
    ids = likeliest_target(model_, input_, start, prompt);
    generated_ = true;
  }
  input_.decoder_input_ids = as_batch(ids);
  target_ = shown_tokens(model_.tokenizer, ids);
}

void Trace::add_source_as_target() {
  const Tensor ids = decoder_input_ids(*model_.model, input_);
  input_.decoder_input_ids = ids;
  const std::vector<int64_t> all = ids.to(DType::i64).to_vector<int64_t>();
  target_ = shown_tokens(model_.tokenizer, {all.begin(), all.end()});
  for (size_t i = 1; i < target_.size() && i <= source_.size(); ++i) {
    if (target_[i].id == source_[i - 1].id) {  // as the source names it: an unknown word by itself
      target_[i] = source_[i - 1];
      ++target_[i].group;
    }
  }
}

void Trace::read_texts() {
  if (!model_.tokenizer) {
    throw Failure(409, "unsupported", "this model has no tokenizer", "model");
  }
  std::istringstream lines(request_.text.value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) {
      texts_.push_back(line);
    }
  }
  if (texts_.empty()) {
    throw Failure(400, "invalid", "'text' is missing", "text");
  }
  for (const std::string& text : texts_) {
    check_ids(model_.tokenizer.encode(text).ids, "text");
  }
  const Encoding encoding = model_.tokenizer.encode(texts_.front());
  input_.input_ids = as_batch(encoding.ids);
  target_ = shown_tokens(model_.tokenizer, encoding, texts_.front());
}

Tensor Trace::logits_per_text(const ModelOutput& output) const {
  std::vector<Tensor> logits{output.logits_per_image.to(DType::f32)};
  // The others are no part of this pass: changes of the first text leave them as they are.
  const auto parameter = [this](const std::string& name) {
    for (const Parameter& each : model_.model->parameters()) {
      if (each.name == name) {
        return each.tensor.to(DType::f32).to_doubles().front();
      }
    }
    return 0.0;
  };
  const double scale = std::exp(parameter("logit_scale")), bias = parameter("logit_bias");
  const NoGrad no_grad;
  for (size_t i = 1; i < texts_.size(); ++i) {
    ModelInput alone;
    alone.input_ids = as_batch(model_.tokenizer.encode(texts_[i]).ids);
    const Tensor text = model_.model->forward(alone).text_embeds.to(DType::f32);
    const Tensor fit = matmul(output.image_embeds.to(DType::f32), transpose(text));
    logits.push_back(add(mul(fit, scale), bias));
  }
  return concat(logits, 1);
}

void Trace::read_input() {
  const ModelHead* head = head_of(*model_.model);
  finds_replaced_ = head != nullptr && head->architecture.ends_with("ForPreTraining");
  switch (model_.model->kind()) {
    case ModelKind::decoder:
    case ModelKind::encoder:
      read_text(false);
      if (decoder_input_ids(*model_.model, input_).defined()) {
        add_source_as_target();
      }
      break;
    case ModelKind::encoder_decoder:
      read_text(true);
      if (!request_.target && !request_.target_ids && !writes_text(*model_.model) &&
          decoder_input_ids(*model_.model, input_).defined()) {
        add_source_as_target();
      } else {
        add_target();
      }
      break;
    case ModelKind::vision:
      input_.pixel_values = image_input(model_, request_.image);
      break;
    case ModelKind::vision_decoder:
      if (model_spec(*model_.model).reads_features) {
        input_.features = feature_input(model_, request_.features);
      } else {
        input_.pixel_values = image_input(model_, request_.image);
      }
      add_target();
      break;
    case ModelKind::speech_decoder:
      input_.input_features = speech_input(model_, request_.audio);
      add_target();
      break;
    case ModelKind::image_text:
      input_.pixel_values = image_input(model_, request_.image);
      read_texts();
      break;
    case ModelKind::regressor:
      read_numbers();
      break;
  }
}

ModelInput Trace::repeated(int64_t copies) const {
  ModelInput input = input_;
  for (Tensor* tensor : {&input.input_ids, &input.token_type_ids, &input.decoder_input_ids,
                         &input.pixel_values, &input.input_features, &input.features,
                         &input.decoder_features, &input.context_input_ids, &input.doc_scores}) {
    if (tensor->defined() && copies > 1) {
      *tensor = concat(std::vector<Tensor>(static_cast<size_t>(copies), *tensor), 0);
    }
  }
  return input;
}

}  // namespace heed::explore
