#include "base/check.h"
#include "explore/answers.h"
#include "explore/attention_parts.h"
#include "explore/parts.h"
#include "heed/ops.h"
#include "pipelines/image_input.h"

namespace heed::explore {
namespace {

const char* family_of(const Model& model, const Trace* trace) {
  if (model.kind() == ModelKind::encoder && trace != nullptr && trace->has_target()) {
    return "encoder-decoder";  // whose decoder reads the source
  }
  switch (model.kind()) {
    case ModelKind::decoder:
      return "decoder";
    case ModelKind::encoder:
      return "encoder";
    case ModelKind::encoder_decoder:
      return "encoder-decoder";
    case ModelKind::vision:
      return "vision";
    case ModelKind::vision_decoder:
      return "vision-encoder-decoder";
    case ModelKind::speech_decoder:
      return "speech-encoder-decoder";
    case ModelKind::image_text:
      return "image-text";
    case ModelKind::regressor:
      return "regressor";
  }
  return "other";
}

/// What a prediction of the model is about.
std::string answers_of(const Model& model, Trace* trace) {
  switch (model.kind()) {
    case ModelKind::encoder_decoder:
    case ModelKind::vision_decoder:
    case ModelKind::speech_decoder:
      return trace != nullptr && trace->first_position() < 0 ? "embedding" : "target-token";
    case ModelKind::regressor:
      return "number";
    case ModelKind::decoder:
    case ModelKind::encoder:
    case ModelKind::vision:
    case ModelKind::image_text:
      break;
  }
  if (points_at_tokens(model)) {
    return "span";
  }
  if (trace != nullptr && !trace->spans().empty()) {
    return "answer-span";
  }
  try {
    const size_t count = trace == nullptr ? 0 : trace->logits(trace->first_position()).size();
    if (model.kind() == ModelKind::decoder) {
      return "next-token";
    }
    return std::cmp_equal(count, model.vocab_size()) ? "fill-mask" : "class";
  } catch (const Failure&) {
    return "embedding";
  }
}

std::string first_string(const Json& config, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto value = config.find(name); value && value->is_string()) {
      return value->string();
    }
  }
  return "";
}

/// How positions come in, as the pass and the parameters show it.
std::string position_of(const Model& model, const Json& config, Trace& trace,
                        const std::string& stack) {
  if (trace.has_hook(stack + "blocks.0.attn.hook_q_unrotated")) {
    return "rotary";
  }
  const std::string kind = trace.attentions().empty() ? "" : trace.attentions().front().kind;
  if (!kind.empty() && trace.attention(kind, 0).record.options.bias.defined()) {
    const bool relative = !trace.stages().empty() || config.has("relative_attention_num_buckets") ||
                          config.boolean_or("use_relative_position_bias", false);
    return relative ? "relative" : "alibi";
  }
  if (!trace.has_hook(stack + "hook_pos_embed")) {
    return "none";
  }
  const auto& parameters = model.parameters();
  const bool learned = std::any_of(parameters.begin(), parameters.end(), [](const Parameter& each) {
    return each.name.find("position") != std::string::npos ||
           each.name.find("wpe") != std::string::npos;
  });
  return learned ? "learned" : "sinusoidal";
}

/// Whether the first norm of a stack subtracts the mean, as a probe of it shows.
bool subtracts_mean(Trace& trace, const StackShape& stack) {
  const std::string block = stack.block(0);
  const std::map<std::string, Row> rows = trace.rows_at(stack.prefix, 0);
  const std::string norm = block + ".ln1.hook_normalized", before = block + ".hook_resid_pre";
  const auto found = rows.find(norm);
  if (found == rows.end()) {
    return true;
  }
  return held_norm(trace, norm, stack.pre_norm ? before : block + ".hook_attn_out",
                   stack.pre_norm ? "" : before, rows.at(before), found->second)
      .centered;
}

/// Whether scores are products of queries and keys, so that they can be split.
bool splits_scores(Trace& trace) {
  try {
    for (const ShownAttention& each : trace.attentions()) {
      check_splittable(trace, trace.attention(each.kind, 0));
    }
    return !trace.attentions().empty();
  } catch (const Failure&) {
    return false;
  }
}

void write_attentions(JsonWriter& json, Trace* trace) {
  json.key("attentions").begin_array();
  for (const ShownAttention& each :
       trace == nullptr ? std::vector<ShownAttention>{} : trace->attentions()) {
    const RecordedAttention& one = trace->attention(each.kind, 0);
    const AttentionOptions& options = one.record.options;
    const auto* window = std::get_if<Window>(&options.position);
    json.begin_object().field("kind", each.kind).field("layers", each.layers);
    json.field("heads", each.heads).field("kv_heads", one.record.k.size(1));
    json.field("head_dim", one.record.q.size(3)).field("causal", each.causal);
    json.field("scale", scale_of(one));
    json.field("softcap", options.softcap).key("window");
    if (window != nullptr && window->left >= 0) {
      json.value(window->left + 1);
    } else {
      json.null();
    }
    json.end_object();
  }
  json.end_array();
}

/// A pass over a short input, from which most of the description is read.
std::unique_ptr<Trace> short_trace(const ExplorerModel& model, bool ended = false) {
  const auto named = model.model->config().find("eos_token_id");
  const int64_t end = named && named->is_integer() ? named->integer(0, int64_t{1} << 32) : -1;
  try {
    TraceRequest request;
    request.model = model.id;
    const ModelKind kind = model.model->kind();
    request.text = kind == ModelKind::regressor ? "1" : "it";
    if (kind == ModelKind::regressor || kind == ModelKind::encoder_decoder ||
        kind == ModelKind::vision_decoder || kind == ModelKind::speech_decoder) {
      request.target = "";
    }
    if (ended) {
      request.ids = model.tokenizer.encode_ids("it");
      request.ids->push_back(end);
    }
    return std::make_unique<Trace>(model, request, std::vector<Intervention>{});
  } catch (const Failure&) {
    return nullptr;
  } catch (const Error&) {  // the model has no answer to so short a text, or wants its end marked
    const bool text = model.model->kind() == ModelKind::encoder && model.tokenizer;
    return ended || end < 0 || !text ? nullptr : short_trace(model, true);
  }
}

bool sees_images(const Model& model) {
  return model.kind() == ModelKind::vision || model.kind() == ModelKind::vision_decoder ||
         model.kind() == ModelKind::image_text;
}

void write_vision(JsonWriter& json, const Model& model, const Json& config, const Trace* trace) {
  if (!sees_images(model)) {
    json.key("patch").null().key("image").null();
    return;
  }
  const VisionConfig vision = vision_config(config);
  const int64_t rows = vision.image.height / vision.patch.height;
  const int64_t columns = vision.image.width / vision.patch.width;
  const int64_t all = trace == nullptr ? 0 : static_cast<int64_t>(trace->source().size());
  json.key("patch").begin_object().field("rows", rows).field("columns", columns);
  json.field("first", std::max<int64_t>(all - rows * columns, 0)).end_object();
  json.key("image").begin_object().field("height", vision.image.height);
  json.field("width", vision.image.width).field("channels", vision.channels).end_object();
}

}  // namespace

std::string describe_model(const ExplorerModel& model) {
  const Model& m = *model.model;
  const Json& config = m.config();
  const std::unique_ptr<Trace> trace = short_trace(model);
  const bool compares = m.kind() == ModelKind::image_text;
  const std::string stack = compares                                  ? "vision_model."
                            : trace != nullptr && trace->has_target() ? "decoder."
                            : trace != nullptr && !trace->stages().empty()
                                ? trace->stages().front().stack
                                : "";
  bool blocks = false, pre = true, gated = false, rms = false;
  int64_t inner = 0;
  std::string position = "none";
  if (trace != nullptr) {
    position = position_of(m, config, *trace, stack);
    try {
      const StackShape shape = stack_shape(*trace, stack);
      pre = shape.pre_norm;
      blocks = true;
      rms = !subtracts_mean(*trace, shape);
    } catch (const Failure&) {
    }
    for (const Watcher::Seen& each : trace->hooks()) {
      gated = gated || each.name == stack + "blocks.0.mlp.hook_pre_linear";
      inner =
          each.name == stack + "blocks.0.mlp.hook_post" ? each.shape[each.shape.rank() - 1] : inner;
    }
  }
  const bool hears = m.kind() == ModelKind::speech_decoder;
  const bool two = m.kind() == ModelKind::encoder_decoder ||
                   m.kind() == ModelKind::vision_decoder || m.kind() == ModelKind::regressor ||
                   hears;
  const bool sees = sees_images(m);
  const std::string answers = answers_of(m, trace.get());
  JsonWriter json;
  json.begin_object().field("id", model.id).field("name", model.id);
  json.field("model_type", m.model_type())
      .field("family", family_of(m, trace.get()))
      .field("answers", answers);
  json.key("inputs").begin_object().field("text", compares || (!sees && !hears));
  json.field("pair", m.kind() == ModelKind::encoder && !model_spec(m).points_at_tokens);
  json.field("target", two).field("image", sees).field("audio", hears).end_object();
  write_attentions(json, trace.get());
  json.field("hidden_size", m.hidden_size()).field("intermediate_size", inner);
  json.field("vocab_size", m.vocab_size()).key("max_positions");
  if (m.context_length() > 0) {
    json.value(m.context_length());
  } else {
    json.null();
  }
  json.field("parameters", m.parameter_count());
  json.field("norm", !blocks ? "none" : pre ? "pre" : "post");
  json.field("norm_type", rms ? "rmsnorm" : "layernorm");
  json.field("activation", first_string(config, {"hidden_act", "activation_function",
                                                 "hidden_activation", "feed_forward_proj"}));
  json.field("gated", gated).field("position", position);
  json.key("mask_token");
  const auto mask = model.tokenizer ? model.tokenizer.special().mask : std::nullopt;
  if (mask) {
    json.value(model.tokenizer.id_to_token(*mask));
  } else {
    json.null();
  }
  write_vision(json, m, config, trace.get());
  const bool words = answers == "next-token" || answers == "target-token";
  // A lens reads one row at every layer of one stack, and a distribution over answers from it.
  const bool lens = blocks && answers != "embedding" && answers != "number" && !compares &&
                    trace->stages().empty();
  json.key("can").begin_object().field("why", blocks && splits_scores(*trace)).field("lens", lens);
  json.field("neurons", blocks).field("generate", words && !hears);
  json.field("beams", words && two && !hears);
  json.field("patching", lens).end_object();
  const std::vector<std::string> examples = example_texts(model);
  json.key("examples").begin_object().field("en", examples).field("ko", examples).end_object();
  return json.end_object().take();
}

std::string describe_unopened(const std::string& id) {
  JsonWriter json;
  json.begin_object().field("id", id).field("name", id).field("model_type", "");
  json.field("family", "other").field("answers", "embedding").key("inputs").begin_object();
  json.field("text", true).field("pair", false).field("target", false).field("image", false);
  json.field("audio", false).end_object().key("attentions").begin_array().end_array();
  json.field("hidden_size", 0).field("intermediate_size", 0).field("vocab_size", 0);
  json.key("max_positions").null().field("parameters", 0).field("norm", "none");
  json.field("norm_type", "layernorm").field("activation", "").field("gated", false);
  json.field("position", "none").key("mask_token").null().key("patch").null().key("image").null();
  json.key("can").begin_object();
  for (const char* name : {"why", "lens", "neurons", "generate", "beams", "patching"}) {
    json.field(name, false);
  }
  json.end_object().key("examples").begin_object().key("en").begin_array().end_array();
  return json.key("ko").begin_array().end_array().end_object().end_object().take();
}

std::string answer_parameters(const ExplorerModel& model) {
  JsonWriter json;
  json.begin_object().key("parameters").begin_array();
  for (const Parameter& each : model.model->parameters()) {
    json.begin_object().field("name", each.name);
    json.field("shape",
               std::vector<int64_t>(each.tensor.shape().begin(), each.tensor.shape().end()));
    json.field("dtype", std::string(name_of(each.tensor.dtype()))).end_object();
  }
  return json.end_array().end_object().take();
}

std::string answer_parameter(const ExplorerModel& model, const Json& body) {
  const Fields fields(body, {"name", "rows", "columns"});
  const std::string name = fields.text("name");
  for (const Parameter& each : model.model->parameters()) {
    if (each.name != name) {
      continue;
    }
    const Tensor& t = each.tensor;
    const int64_t rows = t.rank() < 2 ? 1 : t.size(0),
                  columns = t.numel() / std::max<int64_t>(rows, 1);
    return answer_part(fields, t.shape(), rows, columns, [&](int64_t begin, int64_t end) {
      const Tensor part = t.rank() < 2 ? t : slice(t, 0, begin, end);
      return reshape(part.detach().to(DType::f32).contiguous(), {end - begin, columns});
    });
  }
  throw Failure(404, "not_found", fmt::format("there is no parameter '{}'", name), "name");
}

}  // namespace heed::explore
