#include "train/conversations.h"

#include <algorithm>

#include "base/check.h"
#include "base/checksum.h"
#include "data/block_reader.h"
#include "data/sources.h"
#include "data/targets.h"
#include "heed/models.h"
#include "heed/text.h"

namespace heed {
namespace {

/// The first `count` messages of a conversation as text.
std::string rendered(const Json& messages, size_t count, bool prompt, const std::string& tools,
                     const ChatTemplate& tmpl) {
  std::string text = "[";
  for (size_t i = 0; i < count; ++i) {
    text += (i == 0 ? "" : ",") + messages[i].dump();
  }
  ChatOptions options;
  options.add_generation_prompt = prompt;
  options.tools = tools;
  return tmpl.render(text + "]", options);
}

/// The bytes of `whole` that the assistant's messages add to the prompts before them.
std::vector<TextSpan> assistant_spans(const Json& messages, const std::string& tools,
                                      const std::string& whole, const ChatTemplate& tmpl) {
  std::vector<TextSpan> spans;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].string_or("role", "") != "assistant") {
      continue;
    }
    const std::string prompt = rendered(messages, i, true, tools, tmpl);
    const std::string answered =
        i + 1 == messages.size() ? whole : rendered(messages, i + 1, false, tools, tmpl);
    // A template may show earlier answers in another form (without what was thought): these are
    // then read and not learned.
    if (answered.starts_with(prompt) && whole.starts_with(answered)) {
      spans.push_back({static_cast<int64_t>(prompt.size()), static_cast<int64_t>(answered.size())});
    }
  }
  return spans;
}

void append(MarkedTokens& marked, const std::vector<TokenId>& ids, bool learned) {
  marked.ids.insert(marked.ids.end(), ids.begin(), ids.end());
  marked.learned.resize(marked.ids.size(), learned ? 1 : 0);
}

class MarkedLoader final : public Loader {
 public:
  MarkedLoader(const std::vector<MarkedTokens>& rows, const SequenceTokens& tokens,
               const LoaderOptions& options)
      : Loader(options), tokens_(tokens) {
    std::vector<std::vector<TokenId>> ids;
    std::vector<std::vector<TokenId>> learned;
    for (const MarkedTokens& row : rows) {
      ids.push_back(row.ids);
      learned.push_back(row.learned);
    }
    ids_ = TokenShard::from(ids);
    learned_ = TokenShard::from(learned);
    const uint64_t both[2] = {ids_.fingerprint(), learned_.fingerprint()};
    set_examples(ids_.sequences(), fingerprint_of(both, sizeof(both), 0), true);
  }

 protected:
  int64_t length_of(int64_t example) const override { return ids_.length(example); }

  Batch collate(const std::vector<int64_t>& examples, int64_t begin, int64_t end,
                int64_t) const override {
    Batch batch;
    SequenceTokens plain = tokens_;
    plain.end = -1;  // a conversation that is cut has no end
    fill_inputs(batch, ids_, examples, plain, options().max_length);
    const int64_t longest = batch.input_ids.size(1);
    batch.labels = Tensor::full({batch.rows, longest}, -100, DType::i64);
    std::vector<int64_t> learned;
    for (int64_t row = 0; row < batch.rows; ++row) {
      const int64_t example = examples[static_cast<size_t>(row)];
      const int64_t length = std::min(longest, ids_.length(example));
      learned.assign(static_cast<size_t>(length), 0);
      learned_.copy(learned_.begin(example), length, learned.data());
      // A model compares position t with label t + 1: the first label never counts.
      for (int64_t t = 1; t < length; ++t) {
        if (learned[static_cast<size_t>(t)] != 0) {
          batch.labels.data<int64_t>()[row * longest + t] =
              batch.input_ids.data<int64_t>()[row * longest + t];
        }
      }
    }
    Batch part = batch_rows(batch, begin, end);
    part.global_targets = batch_rows(batch, 0, batch.rows).targets;
    return part;
  }

 private:
  TokenShard ids_, learned_;
  SequenceTokens tokens_;
};

}  // namespace

bool has_conversations(const std::string& data) {
  const std::filesystem::path file = expand_files(data).front();
  if (file.extension() != ".jsonl") {
    return false;
  }
  LineReader lines(file);
  for (std::string_view line; lines.next(line);) {
    if (line.find_first_not_of(" \t") != std::string_view::npos) {
      const Json row = Json::parse(line, lines.where());
      return row.is_object() && row.has("messages");
    }
  }
  return false;
}

void visit_json_lines(const std::string& data,
                      const std::function<void(const Json&, const std::string&)>& visit) {
  for (const std::filesystem::path& file : expand_files(data)) {
    LineReader lines(file);
    for (std::string_view line; lines.next(line);) {
      if (line.find_first_not_of(" \t") != std::string_view::npos) {
        const Json row = Json::parse(line, lines.where());
        check_data(row.is_object(), lines.where(), "is no JSON object");
        visit(row, lines.where());
      }
    }
  }
}

MarkedTokens mark_conversation(const Json& messages, const std::string& tools,
                               const ChatTemplate& tmpl, const Tokenizer& tokenizer,
                               const std::string& where) {
  check_data(messages.is_array() && messages.size() > 0, where,
             "`messages` must be a list of messages with a role each");
  ChatOptions options;
  options.tools = tools;
  RenderedChat chat = tmpl.render_with_spans(messages.dump(), options);
  if (chat.assistant.empty()) {
    chat.assistant = assistant_spans(messages, tools, chat.text, tmpl);
  }
  MarkedTokens marked;
  int64_t at = 0;
  // Piece by piece: a prompt has the tokens that it will have when an answer is asked for.
  for (const TextSpan& span : chat.assistant) {
    append(marked,
           tokenizer.encode_ids(std::string_view(chat.text).substr(at, span.begin - at), false),
           false);
    append(marked,
           tokenizer.encode_ids(
               std::string_view(chat.text).substr(span.begin, span.end - span.begin), false),
           true);
    at = span.end;
  }
  append(marked, tokenizer.encode_ids(std::string_view(chat.text).substr(at), false), false);
  return marked;
}

ChatTemplate template_for(const std::string& from, const std::string& data) {
  check_data(!from.empty(), data, "holds conversations: fine-tune a model with a chat template");
  const std::filesystem::path path = base_model_path(from);
  const std::filesystem::path inner = path / "model";
  const std::optional<ChatTemplate> found =
      ChatTemplate::find(std::filesystem::exists(inner / "config.json") ? inner : path);
  check_data(found.has_value(), from, "has no chat template, which the conversations in {} need",
             data);
  return *found;
}

std::unique_ptr<Loader> make_marked_loader(const std::vector<MarkedTokens>& rows,
                                           const SequenceTokens& tokens,
                                           const LoaderOptions& options) {
  return std::make_unique<MarkedLoader>(rows, tokens, options);
}

}  // namespace heed
