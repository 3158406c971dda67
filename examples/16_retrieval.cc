// Lesson 16. Retrieval instead of a longer context: find passages, and read them one by one (FiD).
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "heed/models.h"
#include "heed/picture.h"
#include "heed/retrieval.h"
#include "heed/text.h"
#include "lesson.h"

using namespace heed;
using lesson::say;

namespace {

/// An encoder with fresh weights: enough to make an index; words are found without one.
std::filesystem::path make_encoder(const std::filesystem::path& folder) {
  const std::string_view texts[] = {"cats sleep in the sun", "우리는 역사를 배운다"};
  const Tokenizer tokenizer = train_tokenizer(
      texts, {.kind = TokenizerKind::wordpiece, .vocab_size = 200, .min_frequency = 1});
  tokenizer.save(folder / "encoder");
  const std::string config = R"({"model_type": "bert", "architectures": ["BertModel"],
      "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64,
      "max_position_embeddings": 64, "type_vocab_size": 2, "vocab_size": )";
  save_model(*create_model(config + std::to_string(tokenizer.vocab_size()) + "}", 1),
             folder / "encoder");
  return folder / "encoder";
}

/// Milliseconds to encode `passages` of 64 tokens, each by itself or joined to one long input.
double encode_time(const Model& model, int64_t passages, bool joined) {
  ModelInput input;
  input.input_ids =
      Tensor::full({joined ? 1 : passages, joined ? passages * 64 : 64}, 5, DType::i64);
  input.passages = joined ? 1 : passages;  // the decoder sees all of them in either case
  const NoGrad no_grad;
  const auto begin = std::chrono::steady_clock::now();
  model.encode(input);
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
  return taken.count();
}

}  // namespace

int main(int argc, char** argv) {
  const lesson::Scratch scratch;
  const std::filesystem::path& folder = scratch.path();
  std::ofstream(folder / "notes.txt") << "Cats sleep in the sun.\n\n우리는 역사를 배운다.";
  IndexOptions options;
  options.model = make_encoder(folder).string();
  options.chunk_tokens = 8;
  options.overlap_tokens = 0;
  const std::string notes = (folder / "notes.txt").string();
  build_index({notes}, folder / "notes.heed-index", options);
  SearchIndex index = SearchIndex::open(folder / "notes.heed-index");
  for (const char* query : {"역사", "sleep"}) {
    const auto results = index.search(query, {.mode = SearchMode::lexical, .top_k = 1});
    std::printf(say("%s finds: %s\n", "%s 검색 결과: %s\n"), query, results.at(0).text.c_str());
  }

  const auto reader = create_model(R"({"model_type": "t5", "d_model": 64, "d_kv": 16, "d_ff": 128,
      "num_layers": 2, "num_heads": 4, "vocab_size": 100})",
                                   1);
  LinePlot plot{.title = say("Encoding passages of 64 tokens", "토큰 64개짜리 문단 인코딩"),
                .x_title = say("Passages", "문단"),
                .y_title = "ms"};
  plot.series = {{say("joined to one input", "하나로 이은 입력"), {}, {}},
                 {say("one by one (FiD)", "하나씩 (FiD)"), {}, {}}};
  for (const int64_t passages : {5, 10, 20, 40}) {
    std::printf(say("%2ld passages: %7ld scores per head one by one, %7ld joined\n",
                    "문단 %2ld개: 헤드마다 점수 %7ld개 (하나씩), %7ld개 (이어서)\n"),
                passages, passages * 64 * 64, passages * 64 * passages * 64);
    for (size_t i = 0; i < 2 && argc > 1; ++i) {
      encode_time(*reader, passages, i == 0);  // the first touches new memory
      plot.series[i].x.push_back(static_cast<double>(passages));
      plot.series[i].y.push_back(encode_time(*reader, passages, i == 0));
    }
  }
  if (argc > 1) {  // a folder for the lesson's picture
    save_picture(std::string(argv[1]) + "/16.svg", plot);
  }
}
