#include "train/task_config.h"

#include <algorithm>

#include "base/check.h"
#include "heed/io.h"
#include "heed/models.h"
#include "models/files.h"

namespace heed {
namespace {

/// Types that `task` trains from scratch, the usual one first.
std::vector<std::string> types_for(const std::string& task, const std::string& usual) {
  std::vector<std::string> types = {usual};
  for (const ModelSpec* spec : model_specs()) {
    const auto& tasks = spec->train_tasks;
    if (spec->model_type != usual && std::find(tasks.begin(), tasks.end(), task) != tasks.end()) {
      types.push_back(spec->model_type);
    }
  }
  return types;
}

std::string type_of(const std::string& from) {
  return find_model_files(from).config.string_or("model_type", "");
}

/// Whether a model of that type has what the task trains: it may be started from even where it
/// cannot be made afresh.
bool can_be_tuned(const std::string& type, const std::string& task) {
  const std::string wanted = task == "classify"         ? "text-classification"
                             : task == "mlm"            ? "fill-mask"
                             : task == "lm"             ? "text-generation"
                             : task == "translate"      ? "translation"
                             : task == "image-classify" ? "image-classification"
                                                        : "";
  const ModelSpec* spec = find_model_spec(type);
  return spec != nullptr && !wanted.empty() &&
         std::any_of(spec->heads.begin(), spec->heads.end(),
                     [&](const ModelHead& head) { return head.task == wanted; });
}

}  // namespace

std::string chosen_arch(const TrainOptions& o, const std::string& usual) {
  const std::vector<std::string> known = types_for(o.task, usual);
  std::string from = o.from.empty() ? std::string() : type_of(o.from);
  std::string wanted = o.arch.empty() ? from : o.arch;
  if (std::find(known.begin(), known.end(), wanted) != known.end()) {
    if (!o.arch.empty() && !from.empty() && o.arch != from) {
      fail(ErrorKind::usage, "arch", "'{}' was given, but {} is a {}; leave it out", o.arch, o.from,
           from);
    }
    return wanted;
  }
  if (o.arch.empty() && can_be_tuned(from, o.task)) {
    return from;
  }
  if (o.arch.empty()) {
    check_data(from.empty() || from == "heed-encoder" || from == "heed-reader", o.from,
               "a {} model cannot be trained for task {}; use {}", from, o.task,
               fmt::join(known, ", "));
    return usual;
  }
  fail(ErrorKind::usage, "arch", "'{}' cannot be trained for task {}; use {}", o.arch, o.task,
       fmt::join(known, ", "));
}

Config fresh_config(const TrainOptions& o, const std::string& type, int64_t vocab_size,
                    int64_t image_size, int64_t channels, int64_t padding) {
  const ModelSpec* spec = find_model_spec(type);
  if (!o.from.empty() && (spec == nullptr || spec->fresh_config == nullptr)) {
    return Config();  // the folder's own config.json says it all
  }
  check(spec != nullptr && spec->fresh_config != nullptr, "train",
        "a {} cannot be trained from scratch", type);
  FreshSizes sizes;
  sizes.vocab_size = vocab_size;
  sizes.hidden_size = o.width;
  sizes.num_layers = o.layers;
  sizes.num_heads = o.heads;
  sizes.intermediate_size = o.ff > 0 ? o.ff : 4 * o.width;
  sizes.context_length = o.context;
  sizes.dropout = o.dropout;
  sizes.task = o.task;
  sizes.image_size = image_size;
  sizes.num_channels = channels;
  sizes.pad_token_id = padding;
  return spec->fresh_config(sizes).set("model_type", type);
}

std::string usual_tokenizer(const std::string& type) {
  const ModelSpec* spec = find_model_spec(type);
  return spec != nullptr && !spec->fresh_tokenizer.empty() ? spec->fresh_tokenizer : "bpe:8192";
}

TokenId first_of(std::initializer_list<std::optional<TokenId>> ids, TokenId otherwise) {
  for (const auto& id : ids) {
    if (id) {
      return *id;
    }
  }
  return otherwise;
}

SequenceTokens sequence_tokens(const Tokenizer& t) {
  const SpecialTokens& s = t.special();
  SequenceTokens tokens;
  tokens.padding = first_of({s.pad, s.eos}, 0);
  tokens.start = first_of({s.bos, s.cls, s.pad, s.eos}, 0);
  tokens.end = first_of({s.eos, s.sep}, -1);
  return tokens;
}

SequenceTokens sequence_tokens(const Tokenizer& tokenizer, const Model& model) {
  SequenceTokens tokens = sequence_tokens(tokenizer);
  const Json& config = model.config();
  const int64_t most = std::max<int64_t>(model.vocab_size(), 1) - 1;
  auto take = [&](const char* key, TokenId& id) {
    const auto found = config.find(key);
    if (found && found->is_integer()) {
      id = found->integer(0, most);
    }
  };
  take("pad_token_id", tokens.padding);
  take("decoder_start_token_id", tokens.start);
  take("eos_token_id", tokens.end);
  return tokens;
}

void add_token_ids(Config& config, const SequenceTokens& tokens) {
  config.set("pad_token_id", tokens.padding);
  config.set("decoder_start_token_id", tokens.start);
  config.set("bos_token_id", tokens.start);
  if (tokens.end >= 0) {
    config.set("eos_token_id", tokens.end);
  }
}

void add_labels(Config& config, const std::vector<std::string>& labels) {
  Config names, ids;
  for (size_t i = 0; i < labels.size(); ++i) {
    names.set(std::to_string(i), labels[i]);
    ids.set(labels[i], static_cast<int64_t>(i));
  }
  config.set("id2label", names).set("label2id", ids);
  config.set("num_labels", static_cast<int64_t>(labels.size()));
}

}  // namespace heed
