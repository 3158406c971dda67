#include "train/conversations.h"

#include <gtest/gtest.h>

#include <fstream>

#include "heed/runtime.h"
#include "heed/text.h"
#include "support/data.h"

namespace heed::test {
namespace {

constexpr const char* kPlain =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";
/// Marks the assistant's words itself, without what ends them.
constexpr const char* kMarked =
    "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}"
    "{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %};{% endfor %}";
/// Shows only the last answer whole, as templates of reasoning models do.
constexpr const char* kShort =
    "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' and not loop.last %}…"
    "{% else %}{{ m.content }}{% endif %};{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";
constexpr const char* kMessages =
    R"([{"role": "user", "content": "ab"}, {"role": "assistant", "content": "cd"},
        {"role": "user", "content": "ef"}, {"role": "assistant", "content": "gh"}])";

Tokenizer characters() {
  const std::string text = "abcdefgh<>;usrainto …";
  TokenizerTraining training = parse_tokenizer_kind("char");
  const std::vector<std::string_view> views = {text};
  return train_tokenizer(std::span<const std::string_view>(views), training);
}

/// What is learned of a conversation, with | between stretches.
std::string learned(const char* tmpl, const char* messages = kMessages) {
  const Tokenizer tokenizer = characters();
  const MarkedTokens marked = mark_conversation(Json::parse(messages, "row"), "",
                                                ChatTemplate::from_text(tmpl), tokenizer, "file:1");
  EXPECT_EQ(marked.ids.size(), marked.learned.size());
  std::string text;
  for (size_t i = 0; i < marked.ids.size(); ++i) {
    if (marked.learned[i] != 0) {
      text += tokenizer.decode(std::vector<TokenId>{marked.ids[i]});
    } else if (!text.empty() && text.back() != '|') {
      text += '|';
    }
  }
  return text;
}

TEST(Conversations, OnlyTheAssistantsTurnsAreLearned) {
  EXPECT_EQ(learned(kPlain), "cd;|gh;");
  EXPECT_EQ(learned(kMarked), "cd|gh|");
  EXPECT_EQ(learned(kShort), "gh;");
  EXPECT_EQ(learned(kPlain, R"([{"role": "user", "content": "ab"}])"), "");
}

TEST(Conversations, BadRowsAreNamed) {
  const auto refused = [](const char* messages) -> std::string {
    try {
      learned(kPlain, messages);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  };
  EXPECT_EQ(refused("{}"), "file:1: `messages` must be a list of messages with a role each");
  EXPECT_EQ(refused("[]"), "file:1: `messages` must be a list of messages with a role each");
}

TEST(Conversations, AreTheirOwnKindOfData) {
  const TemporaryFolder work;
  std::ofstream(work / "chat.jsonl") << "\n{\"messages\": []}\n";
  std::ofstream(work / "text.jsonl") << "{\"text\": \"messages\"}\n";
  std::ofstream(work / "text.txt") << "{\"messages\": []}\n";
  EXPECT_TRUE(has_conversations((work / "chat.jsonl").string()));
  EXPECT_FALSE(has_conversations((work / "text.jsonl").string()));
  EXPECT_FALSE(has_conversations((work / "text.txt").string()));
}

TEST(Conversations, LabelsAreTheLearnedTokens) {
  const std::vector<MarkedTokens> rows = {{{5, 6, 7, 8, 9}, {0, 0, 1, 1, 0}},
                                          {{3, 4, 5}, {1, 1, 1}}};
  LoaderOptions options;
  options.batch = 2;
  options.shuffle = false;
  options.max_length = 4;
  const auto loader = make_marked_loader(rows, {.padding = 1, .start = 0, .end = 2}, options);
  const Batch batch = loader->batch(0);
  EXPECT_EQ(batch.input_ids.to_vector<int64_t>(), (std::vector<int64_t>{5, 6, 7, 8, 3, 4, 5, 1}));
  EXPECT_EQ(batch.labels.to_vector<int64_t>(),
            (std::vector<int64_t>{-100, -100, 7, 8, -100, 4, 5, -100}));
  EXPECT_EQ(batch.targets, 4);
  EXPECT_EQ(batch.global_targets, 4);
}

}  // namespace
}  // namespace heed::test
