#include "base/check.h"
#include "base/file.h"
#include "heed/inspect_run.h"
#include "heed/open.h"
#include "heed/serve.h"
#include "io/json_writer.h"

namespace heed::app {
namespace {

constexpr uint64_t kMostImageBytes = uint64_t{64} << 20;

/// The options' changes of the pass, as the explorer's protocol writes them.
std::string interventions(const Model& model, const InspectOptions& options,
                          const std::vector<HeadScale>& heads) {
  const bool two = model.kind() == ModelKind::encoder_decoder ||
                   model.kind() == ModelKind::vision_decoder ||
                   model.kind() == ModelKind::speech_decoder;
  JsonWriter json;
  json.begin_array();
  for (const HeadScale& head : heads) {
    json.begin_object().field("type", "head");
    json.field("kind", !head.kind.empty() ? head.kind : two ? "cross" : "self");
    json.field("layer", head.layer).field("head", head.head).field("scale", head.scale);
    json.end_object();
  }
  if (options.no_causal) {
    json.begin_object().field("type", "causal").field("enabled", false).end_object();
  }
  const std::string text = json.end_array().take();
  return text == "[]" ? "" : text;
}

}  // namespace

void write_inspect_page(const Model& model, const Tokenizer& tokenizer,
                        const InspectOptions& options, const std::vector<HeadScale>& heads) {
  if (options.show == "gradient") {
    fail(ErrorKind::usage, "--show", "a page holds no gradient maps; use --format svg, png or npy");
  }
  ExplorerModel subject;
  subject.path = options.model;
  if (std::filesystem::exists(subject.path / "model" / "config.json")) {
    subject.path /= "model";  // a run folder
  }
  const std::filesystem::path named = std::filesystem::path(options.model).lexically_normal();
  subject.id = (named.has_filename() ? named : named.parent_path()).filename().string();
  subject.model = std::shared_ptr<const Model>(std::shared_ptr<void>(), &model);
  subject.tokenizer = tokenizer;
  ExplorerFileOptions file;
  file.text = options.text;
  if (!options.text_pair.empty()) {
    file.pair = options.text_pair;
  }
  if (!options.target.empty()) {
    file.target = options.target;
  }
  file.ask = options.ask;
  if (!options.image.empty()) {
    file.image = read_file(options.image, kMostImageBytes);
  }
  file.interventions = interventions(model, options, heads);
  file.kind = options.kind;
  file.layer = options.layer;
  file.head = options.head;
  file.language = options.language;
  const std::string page = explorer_file(subject, file);
  if (options.output.empty()) {
    print(page);
  } else {
    write_file_atomically(options.output, page);
  }
}

}  // namespace heed::app
