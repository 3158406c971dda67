// What the headers promise of threads: a Model and a Tokenizer are shared, a Recorder is one
// thread's.
#include <gtest/gtest.h>

#include <thread>

#include "heed/inspect.h"
#include "heed/models.h"
#include "heed/text.h"

namespace heed {
namespace {

constexpr int kThreads = 4;

/// Runs call(thread) on several threads at once.
template <class Call>
void at_once(const Call& call) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&call, thread] { call(thread); });
  }
  for (std::thread& each : threads) {
    each.join();
  }
}

ModelInput input_of(int thread) {
  std::vector<TokenId> ids;
  for (int i = 0; i < 5 + thread; ++i) {
    ids.push_back((7 * thread + 3 * i) % 50);
  }
  ModelInput input;
  input.input_ids = Tensor::from(ids, {1, static_cast<int64_t>(ids.size())});
  return input;
}

struct Seen {
  std::vector<double> logits, weights;
  int64_t attentions = 0;
  bool operator==(const Seen&) const = default;
};

Seen look(const Model& model, int thread) {
  const Recorder recorder;
  const ModelOutput output = model.forward(input_of(thread));
  return {output.logits.to_doubles(), recorder.at("self", 0).record.weights(0, 0).to_doubles(),
          static_cast<int64_t>(recorder.attentions().size())};
}

TEST(ThreadSafety, ThreadsShareAModelAndRecordTheirOwnPasses) {
  for (const char* config :
       {R"({"model_type": "gpt2", "vocab_size": 50, "n_embd": 16, "n_layer": 2, "n_head": 2,
            "n_positions": 16})",
        R"({"model_type": "llama", "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2,
            "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 16,
            "rms_norm_eps": 1e-6})"}) {
    const auto model = create_model(config, 1);
    std::vector<Seen> alone, together(kThreads);
    for (int thread = 0; thread < kThreads; ++thread) {
      alone.push_back(look(*model, thread));
    }
    at_once([&](int thread) {
      for (int again = 0; again < 5; ++again) {
        together[static_cast<size_t>(thread)] = look(*model, thread);
      }
    });
    for (int thread = 0; thread < kThreads; ++thread) {
      const auto at = static_cast<size_t>(thread);
      EXPECT_TRUE(alone[at] == together[at]) << config << ", thread " << thread;
    }
  }
}

TEST(ThreadSafety, ThreadsShareATokenizer) {
  const std::vector<std::string_view> texts = {"the cats sat on the mat", "the dogs sat, too",
                                               "학생들이 책을 읽는다", "the mat sat on the cats"};
  TokenizerTraining training;
  training.vocab_size = 300;
  const Tokenizer tokenizer = train_tokenizer(std::span<const std::string_view>(texts), training);
  std::vector<std::vector<TokenId>> found(kThreads);
  std::vector<std::string> decoded(kThreads);
  at_once([&](int thread) {
    const auto at = static_cast<size_t>(thread);
    for (int again = 0; again < 200; ++again) {
      found[at] = tokenizer.encode_ids(texts[at]);
      decoded[at] = tokenizer.decode(found[at]);
    }
  });
  for (size_t at = 0; at < found.size(); ++at) {
    EXPECT_EQ(found[at], tokenizer.encode_ids(texts[at]));
    EXPECT_EQ(decoded[at], texts[at]);
  }
}

}  // namespace
}  // namespace heed
