#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/check.h"
#include "base/language.h"
#include "base/utf8.h"
#include "heed/inspect_run.h"
#include "heed/io.h"
#include "heed/language.h"
#include "heed/model_options.h"
#include "heed/open.h"
#include "heed/ops.h"
#include "heed/tensor.h"

namespace heed::app::inspect_command {
namespace {

constexpr const char* kTokenizerFiles[] = {"tokenizer.json", "vocab.json", "vocab.txt",
                                           "tokenizer.model"};
constexpr int64_t kLong = 1024;  // tokens from which only one layer is kept

/// "3.5" or "3.5=0.25": layer 3, head 5, ablated or scaled.
HeadScale parse_head(const std::string& text, const std::string& kind) {
  HeadScale scale;
  scale.kind = kind;
  const char* end = text.data() + text.size();
  const auto layer = std::from_chars(text.data(), end, scale.layer);
  bool ok = layer.ec == std::errc() && layer.ptr != end && *layer.ptr == '.';
  if (ok) {
    const auto head = std::from_chars(layer.ptr + 1, end, scale.head);
    ok = head.ec == std::errc();
    if (ok && head.ptr != end) {
      const auto factor = std::from_chars(head.ptr + 1, end, scale.scale);
      ok = *head.ptr == '=' && factor.ec == std::errc() && factor.ptr == end &&
           std::isfinite(scale.scale);
    }
  }
  if (!ok || scale.layer < 0 || scale.head < 0) {
    fail(ErrorKind::usage, "--ablate", "{} is not LAYER.HEAD or LAYER.HEAD=SCALE", quote(text));
  }
  return scale;
}

/// Whether a tokenizer lies with the model or was named; models of images may have none.
bool has_tokenizer(const InspectOptions& options) {
  namespace fs = std::filesystem;
  fs::path place = base_model_path(options.model);
  if (fs::exists(place / "model" / "config.json")) {
    place /= "model";  // a run folder
  }
  if (!options.tokenizer.empty() || place.extension() == ".gguf") {
    return true;
  }
  return std::any_of(std::begin(kTokenizerFiles), std::end(kTokenizerFiles),
                     [&](const char* name) { return fs::exists(place / name); });
}

Opened open_for_inspection(const InspectOptions& options) {
  if (has_tokenizer(options)) {
    return open_model(options.model, options.tokenizer, {.adapter = options.adapter});
  }
  Opened opened;
  opened.model = load_model(options.model, {.adapter = options.adapter});
  return opened;
}

/// Where the pass's answer stands among the positions of the logits: at the mask of a masked
/// language model, else at the end. -1: an encoder that was asked for nothing.
int64_t answer_position(const Model& model, const Tokenizer& tokenizer, const ModelInput& input,
                        const Tensor& logits) {
  if (logits.rank() != 3 || model.kind() != ModelKind::encoder) {
    return logits.rank() == 3 ? logits.size(1) - 1 : 0;
  }
  if (!tokenizer || !tokenizer.special().mask) {
    return -1;
  }
  const int64_t mask = *tokenizer.special().mask;
  const std::vector<int64_t> ids = input.input_ids.to_vector<int64_t>();
  const auto found = std::find(ids.begin(), ids.end(), mask);
  return found == ids.end() ? -1 : found - ids.begin();
}

/// The scores that stand for the pass's answer: of the class, or of the token at `position`
/// [vocabulary].
Tensor answer(const Tensor& logits, int64_t position) {
  const Tensor first = select(logits, 0, 0);
  return first.rank() == 1 ? first : select(first, 0, position);
}

/// The name of a class in the configuration.
std::string class_name(const Model& model, int64_t index) {
  const Json& config = model.config();
  const auto names = config.find("id2label");
  return names ? names->string_or(std::to_string(index), fmt::format("class {}", index))
               : fmt::format("class {}", index);
}

std::vector<Guess> guesses(const Model& model, const Tensor& logits, const Tokenizer& tokenizer,
                           const InspectInput& input) {
  std::vector<Guess> list;
  if (!logits.defined() || logits.rank() < 2 || logits.rank() > 3) {
    return list;
  }
  const int64_t position = answer_position(model, tokenizer, input.input, logits);
  if (position < 0) {
    return list;
  }
  const std::vector<std::string>& words = input.source;
  const std::vector<double> shares = softmax(answer(logits.detach(), position)).to_doubles();
  std::vector<int64_t> order(shares.size());
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<int64_t>(i);
  }
  const size_t kept = std::min<size_t>(5, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(kept), order.end(),
                    [&](int64_t a, int64_t b) {
                      return shares[static_cast<size_t>(a)] > shares[static_cast<size_t>(b)];
                    });
  const bool tokens = tokenizer && logits.rank() == 3 && model.vocab_size() == logits.size(-1);
  const bool places = points_at_tokens(model) && words.size() == shares.size();
  for (size_t i = 0; i < kept; ++i) {
    const int64_t id = order[i];
    const TokenId token = id;
    const bool known = tokens && id < tokenizer.vocab_size();
    const std::string name = places   ? words[static_cast<size_t>(id)]
                             : known  ? tokenizer.decode(std::vector<TokenId>{token}, false)
                             : tokens ? fmt::format("token {}", id)
                                      : class_name(model, id);
    list.push_back({name, shares[static_cast<size_t>(id)]});
  }
  return list;
}

RecorderOptions recorder_options(const Model& model, const InspectOptions& options,
                                 int64_t length) {
  RecorderOptions wanted;
  wanted.kind = options.kind;
  wanted.layer = options.rollout || options.heads_table ? -1 : options.layer;
  if (length > kLong && wanted.layer < 0 && !options.heads_table) {
    wanted.layer = model.num_layers() - 1;
  }
  for (const std::string& text : options.ablate) {
    wanted.heads.push_back(parse_head(text, options.kind));
  }
  wanted.no_causal = options.no_causal;
  wanted.gradients = options.show == "gradient";
  return wanted;
}

void check_heads(const Model& model, const std::vector<HeadScale>& heads) {
  for (const HeadScale& head : heads) {
    if (head.layer >= model.num_layers() && model.num_layers() > 0) {
      fail(ErrorKind::usage, "--ablate", "layer {} does not exist; the model has {}", head.layer,
           model.num_layers());
    }
  }
}

/// Not every attention lets itself be disturbed: an LSTM's weights are only shown.
void check_reached(const Recorder& recorder, bool gradients) {
  for (const HeadScale& head : recorder.unscaled()) {
    fail(ErrorKind::usage, "--ablate", "this model has no head {}.{} that can be ablated",
         head.layer, head.head);
  }
  const auto& all = recorder.attentions();
  const bool probed = std::any_of(
      all.begin(), all.end(), [](const RecordedAttention& each) { return each.probe.defined(); });
  if (gradients && !probed) {
    fail(ErrorKind::usage, "--show", "this model's attention has no gradient maps");
  }
}

/// Every attention of the model, for an error that says what there is: a pass with all of them
/// kept.
std::vector<AttentionKind> attention_kinds(const Model& model, ModelInput input) {
  const NoGrad no_grad;
  input.want_logits = false;
  const Recorder all{RecorderOptions{}};
  model.forward(input);
  return kinds_of(all);
}

/// Whether what was asked for is not among what was recorded.
bool is_missing(const Recorder& recorder, const InspectOptions& options) {
  const auto& all = recorder.attentions();
  return std::none_of(all.begin(), all.end(),
                      [&](const RecordedAttention& each) { return options.head < each.heads(); });
}

Inspection look(const Model& model, const Tokenizer& tokenizer, const InspectOptions& options) {
  Inspection inspection;
  inspection.model_type = model.model_type();
  inspection.input = inspect_input(model, tokenizer, options);
  const auto length = static_cast<int64_t>(inspection.input.source.size());
  const RecorderOptions wanted = recorder_options(model, options, length);
  check_heads(model, wanted.heads);
  ModelInput input = inspection.input.input;
  input.want_logits = length <= kLong || wanted.gradients;
  if (!wanted.heads.empty() || wanted.no_causal) {
    const NoGrad no_grad;
    inspection.undisturbed =
        guesses(model, model.forward(input).logits, tokenizer, inspection.input);
  }
  inspection.recorder = std::make_unique<Recorder>(wanted);
  std::optional<NoGrad> no_grad;
  if (!wanted.gradients) {
    no_grad.emplace();
  }
  const ModelOutput output = model.forward(input);
  if (is_missing(*inspection.recorder, options)) {
    inspection.kinds = attention_kinds(model, input);
    return inspection;
  }
  check_reached(*inspection.recorder, wanted.gradients);
  inspection.prediction = guesses(model, output.logits, tokenizer, inspection.input);
  if (output.logits.defined() && !inspection.prediction.empty() &&
      model.kind() == ModelKind::encoder && output.logits.rank() == 3) {
    inspection.predicted_position =
        answer_position(model, tokenizer, inspection.input.input, output.logits);
  }
  if (wanted.gradients) {
    if (!output.logits.defined()) {
      fail(ErrorKind::usage, "--show", "gradient needs a model with logits");
    }
    const int64_t position =
        answer_position(model, tokenizer, inspection.input.input, output.logits);
    backward(max(answer(output.logits, std::max<int64_t>(position, 0)), -1));
  }
  return inspection;
}

int terminal_width() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

void add_options(OptionTable& table, InspectOptions& o) {
  table.add("MODEL", &o.model, "Model folder, run folder, .gguf or llama2.c's .bin").required();
  table.add("--text", &o.text, "Text for the model to read");
  table.add("--text-pair", &o.text_pair, "Second text, for models that read pairs");
  table.add("--target", &o.target, "Input of the decoder (default: what the model generates)");
  table.add("--image", &o.image, "Image to look at").file();
  table.add("--audio", &o.audio, "Recording to listen to, for speech models").file();
  table.add("--ask", &o.ask, "For a reader: the word it is asked about (default: \"it\")");
  add_tokenizer(table, o.tokenizer);
  add_adapter(table, o.adapter);
  table.add("--kind", &o.kind, "Which attention")
      .choices({"self", "encoder", "decoder", "cross", "readout", "text", "vision"});
  table
      .add("--layer", &o.layer,
           "Layer, from 0 (default: the last; all for json, npy; the first for html)")
      .range(0, 100000);
  table.add("--head", &o.head, "Head, from 0 (default: all)").range(0, 100000);
  table.add("--top-k", &o.top_k, "List this many strongest keys of every query").range(1, 1000);
  table
      .add("--show", &o.show,
           "Weights, weights times the norm of the values, or weights times the gradient of the "
           "answer")
      .choices({"weights", "values", "gradient"});
  table.add("--rollout", &o.rollout, "Attention rollout over all layers");
  table.add("--heads-table", &o.heads_table, "What each head does, as a table");
  table.add("--points-at", &o.points_at,
            "With --heads-table: rank the heads by their weight on this word, from the word asked "
            "about (or the last one)");
  table.add("--why", &o.why,
            "LAYER,HEAD,QUERY,KEY: split this score into what each part of the model contributed");
  table.add("--patches", &o.patches, "The weights over the image or the spectrogram (svg, png)");
  table.add("--query", &o.query, "With --patches: the query whose weights are shown")
      .range(0, 1 << 20);
  table.add("--ablate,--mute", &o.ablate,
            "Head to ablate: LAYER.HEAD, or LAYER.HEAD=SCALE; may be repeated");
  table.add("--no-causal", &o.no_causal, "Disable the causal mask");
  table.add("--format", &o.format, "Output format")
      .choices({"term", "svg", "png", "html", "json", "npy"});
  table.add("-o,--output", &o.output, "File to write (default: stdout)").file();
  table
      .add("--scale", &o.scale,
           "How weights become colours: absolute (0 … 1 with a gamma, so that pictures can be "
           "compared), linear (0 … the largest), row (each row's largest) or log")
      .choices({"absolute", "linear", "row", "log"});
  table.add("--colors", &o.colors, "Colours of the map (default: blues)")
      .choices({"blues", "greens", "reds", "greys", "dusk", "diverging"});
  table.add("--hide-special", &o.hide_special,
            "Leave out special tokens such as [CLS] and [SEP] (term, svg, png)");
  table.add("--width", &o.width, "Width of the output in columns (default: the terminal's)")
      .range(20, 1000);
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto options = std::make_shared<InspectOptions>();
  add_options(table, *options);
  return [options, &common] {
    InspectOptions o = *options;
    o.language = message_language();
    o.format = common.json ? "json" : o.format;
    o.width = o.width > 0 ? o.width : terminal_width();
    if (o.output.empty() &&
        (o.format == "npy" || (o.format == "png" && isatty(STDOUT_FILENO) != 0))) {
      fail(ErrorKind::usage, "inspect", "--format {} needs -o FILE", o.format);
    }
    const Opened opened = open_for_inspection(o);
    if (!o.why.empty()) {
      return inspect_why(*opened.model, opened.tokenizer, o, common);
    }
    if (o.format == "html") {
      const RecorderOptions wanted = recorder_options(*opened.model, o, 0);
      check_heads(*opened.model, wanted.heads);
      write_inspect_page(*opened.model, opened.tokenizer, o, wanted.heads);
      return 0;
    }
    write_inspection(look(*opened.model, opened.tokenizer, o), o, common);
    return 0;
  };
}

const Registration kInspect{
    {"inspect",
     "Show what a model attends to",
     {"heed inspect models/gpt2 --text \"The cat sat on the mat\"",
      "heed inspect run --text \"나는 학교에 갔다\" --format html -o attention.html"},
     setup}};

}  // namespace
}  // namespace heed::app::inspect_command
