// Commands on small models made here: what they print is what the library computes.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "heed/generate.h"
#include "heed/inspect.h"
#include "heed/io.h"
#include "heed/ops.h"
#include "heed/tensor.h"
#include "support/check.h"
#include "support/data.h"
#include "support/text.h"

namespace heed::test {
namespace {

struct Ran {
  int code = -1;
  std::string out;  ///< both streams
};

/// heed with these words of a shell's line.
Ran heed(const std::string& arguments) {
  FILE* pipe = popen(fmt::format("'{}' {} 2>&1", program().native(), arguments).c_str(), "r");
  Ran ran;
  std::array<char, 4096> buffer{};
  for (size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    ran.out.append(buffer.data(), n);
  }
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

/// A tokenizer of whole words, split at blanks, beside the model.
void write_words(const std::filesystem::path& folder, const std::vector<std::string>& words) {
  nlohmann::ordered_json vocabulary;
  for (const std::string& word : words) {
    vocabulary[word] = vocabulary.size();
  }
  const nlohmann::ordered_json file = {
      {"version", "1.0"},
      {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
      {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", words.front()}}}};
  write_file_atomically(folder / "tokenizer.json", file.dump());
}

class ReaderCommand : public testing::Test {
 protected:
  ReaderCommand() {
    model_ = create_model(
        R"({"model_type": "heed-reader", "num_labels": 4, "vocab_size": 7, "d_model": 12,
            "encoder_layers": 2, "encoder_attention_heads": 3, "encoder_ffn_dim": 20,
            "max_position_embeddings": 16, "dropout": 0.0, "initializer_range": 0.5})",
        4);
    save_model(*model_, folder_.path());
    write_words(folder_.path(), {"[UNK]", "the", "cat", "chased", "mouse", "because", "it"});
    input_.input_ids = Tensor::from<int64_t>({1, 2, 3, 1, 4, 5, 6}, {1, 7});
    input_.token_type_ids = Tensor::from<int64_t>({0, 0, 0, 0, 0, 0, 1}, {1, 7});
  }

  Ran inspect(const std::string& more) const {
    return heed(fmt::format("inspect {} --text 'the cat chased the mouse because it' --quiet {}",
                            folder_.path().native(), more));
  }

  TemporaryFolder folder_;
  std::unique_ptr<Model> model_;
  ModelInput input_;
};

/// The table's lines are the heads by their weight from "it" on the word, largest first.
TEST_F(ReaderCommand, PointsAtRanksHeadsByTheirWeightOnTheWord) {
  constexpr int64_t kIt = 6, kMouse = 4;
  const NoGrad no_grad;
  Recorder recorder;
  model_->forward(input_);
  std::vector<std::pair<double, std::string>> expected;
  for (const RecordedAttention& each : recorder.attentions()) {
    const int64_t row = std::min(kIt, each.queries() - 1);
    for (int64_t head = 0; head < each.heads(); ++head) {
      const double weight =
          each.record.weights(0, head, row, row + 1, kMouse, kMouse + 1).to_doubles().front();
      expected.emplace_back(
          weight, fmt::format("{} {} {} {:.3f}", each.place.kind, each.place.layer, head, weight));
    }
  }
  std::stable_sort(expected.begin(), expected.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  ASSERT_EQ(expected.size(), 2U * 3 + 1);
  const Ran ran = inspect("--heads-table --points-at mouse");
  ASSERT_EQ(ran.code, 0) << ran.out;
  const std::vector<std::string> lines = lines_of(ran.out);
  ASSERT_EQ(lines.size(), 1 + expected.size()) << ran.out;
  for (size_t i = 0; i < expected.size(); ++i) {
    std::istringstream in(lines[i + 1]);
    std::string kind, layer, head, entropy, distance, share, points;
    in >> kind >> layer >> head >> entropy >> distance >> share >> points;
    EXPECT_EQ(fmt::format("{} {} {} {}", kind, layer, head, points), expected[i].second) << ran.out;
  }
}

TEST_F(ReaderCommand, PointsAtAWordThatIsNotThereIsAMistake) {
  const Ran ran = inspect("--heads-table --points-at dog");
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.out.find("--points-at: the text has no 'dog'"), std::string::npos) << ran.out;
}

/// A reader that points answers with words of the text, with the readout's weights.
TEST_F(ReaderCommand, AnswersWithTheWordsOfTheText) {
  const NoGrad no_grad;
  const std::vector<double> shares = softmax(model_->forward(input_).logits).to_doubles();
  const std::vector<std::string> words{"the", "cat", "chased", "the", "mouse", "because", "it"};
  const Ran ran = inspect("--json");
  ASSERT_EQ(ran.code, 0) << ran.out;
  const nlohmann::json guesses = nlohmann::json::parse(ran.out)["prediction"];
  ASSERT_EQ(guesses.size(), 5U);
  std::vector<size_t> order{0, 1, 2, 3, 4, 5, 6};
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return shares[a] > shares[b]; });
  for (size_t i = 0; i < guesses.size(); ++i) {
    EXPECT_EQ(guesses[i]["token"], words[order[i]]);
    EXPECT_NEAR(guesses[i]["probability"].get<double>(), shares[order[i]], 1e-6);
  }
  EXPECT_EQ(inspect("--ask dog").code, 2);
  const nlohmann::json asked = nlohmann::json::parse(inspect("--ask cat --json").out)["prediction"];
  EXPECT_NE(asked, guesses) << "another word is asked about";
}

/// Every word of a picture follows the language.
TEST_F(ReaderCommand, KoreanPicturesHaveKoreanWords) {
  const Ran svg = inspect("--lang ko --format svg");
  for (const char* word : {">쿼리<", ">키<", ">가중치<", "판독", "히트맵 1개"}) {
    EXPECT_NE(svg.out.find(word), std::string::npos) << word;
  }
  for (const char* word : {"Query", "Key", "Weight", "heat map"}) {
    EXPECT_EQ(svg.out.find(word), std::string::npos) << word;
  }
  const Ran table = inspect("--lang ko --heads-table");
  EXPECT_EQ(table.out.find("mixed"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("패턴"), std::string::npos);
}

/// The captions of a file, best first, as the library finds them.
std::vector<Hypothesis> captions(const Model& model, const Tensor& features, int64_t beams) {
  Request request;
  request.encoder.features = unsqueeze(features, 0);
  request.max_tokens = 6;
  request.end = generation_tokens(model).end;
  return beam_search(model, request, {.beams = beams, .n_best = beams, .max_tokens = 6});
}

TEST(CaptionCommand, DescribesRegionFeaturesAsTheLibraryDoes) {
  const TemporaryFolder folder;
  const auto model = create_model(
      R"({"model_type": "heed-captioner", "vocab_size": 9, "d_model": 12, "feature_size": 10,
          "decoder_layers": 2, "decoder_attention_heads": 3, "decoder_ffn_dim": 20,
          "initializer_range": 0.5, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
          "decoder_start_token_id": 1})",
      5);
  save_model(*model, folder.path());
  const std::vector<std::string> words{"[UNK]", "<s>",  "</s>", "a",     "red",
                                       "blue",  "ring", "left", "square"};
  write_words(folder.path(), words);
  const auto text_of = [&](const Hypothesis& hypothesis) {
    std::string text;
    for (const int64_t id : hypothesis.ids) {
      text += (text.empty() ? "" : " ") + words[static_cast<size_t>(id)];
    }
    return text;
  };
  std::string files, expected;
  for (uint64_t i = 0; i < 3; ++i) {
    const Tensor features = random_normal({4 + static_cast<int64_t>(i), 10}, DType::f32, i + 1);
    const std::filesystem::path file = folder / fmt::format("{}.npy", i);
    save_npy(file, features);
    files += " " + file.native();
    const std::string text = text_of(captions(*model, features, 1).front());
    expected += fmt::format("{}\t{}\n", file.native(), text);
    const Ran best =
        heed(fmt::format("caption {} {} --max-tokens 6 --beam-size 3 --n-best 3 --json",
                         folder.path().native(), file.native()));
    ASSERT_EQ(best.code, 0) << best.out;
    const nlohmann::json found = nlohmann::json::parse(best.out)["captions"];
    const std::vector<Hypothesis> wanted = captions(*model, features, 3);
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t h = 0; h < wanted.size(); ++h) {
      EXPECT_EQ(found[h]["text"], text_of(wanted[h]));
      EXPECT_NEAR(found[h]["score"].get<double>(), wanted[h].score, 1e-9);
    }
  }
  const std::string command =
      fmt::format("caption {}{} --max-tokens 6", folder.path().native(), files);
  EXPECT_EQ(heed(command).out, expected);
  EXPECT_EQ(heed(command + " --batch 1").out, expected) << "a batch changes nothing";
  const Ran wrong = heed(
      fmt::format("caption {} {}", folder.path().native(), (golden("io") / "rgb.png").native()));
  EXPECT_EQ(wrong.code, 2) << wrong.out;
  EXPECT_NE(wrong.out.find("region features"), std::string::npos) << wrong.out;
}

/// heed-captioner from region features to captions, training included.
TEST(CaptionCommand, LearnsFromRegionFeatures) {
  const TemporaryFolder folder;
  constexpr int64_t kImages = 24;
  const Tensor features = random_normal({kImages, 5, 6}, DType::f32, 3);
  save_safetensors(folder / "regions.safetensors", {{"features", features}});
  std::string captions;
  for (int64_t i = 0; i < kImages; ++i) {
    captions += i % 2 == 0 ? "a red ring\n" : "a blue square left\n";
  }
  write_file_atomically(folder / "regions.txt", captions);
  const std::string run = (folder / "run").native();
  const std::string train = fmt::format(
      "train --task caption --data {} --tokenizer char --layers 1 --heads 2 --width 16 "
      "--batch 6 --warmup 1 --eval-texts 4 --eval-every 4 --quiet",
      (folder / "regions.safetensors").native());
  const Ran first = heed(fmt::format("{} --steps 8 --out {}", train, run));
  ASSERT_EQ(first.code, 0) << first.out;
  const nlohmann::json config = nlohmann::json::parse(read_file(folder / "run/model/config.json"));
  EXPECT_EQ(config["model_type"], "heed-captioner");
  EXPECT_EQ(config["feature_size"], 6);
  EXPECT_EQ(config["region_positions"], true) << "features have an order";
  const Ran unordered =
      heed(fmt::format("{} --steps 1 --unordered-features --out {}-set", train, run));
  ASSERT_EQ(unordered.code, 0) << unordered.out;
  EXPECT_EQ(
      nlohmann::json::parse(read_file(folder / "run-set/model/config.json"))["region_positions"],
      false);
  const std::string metrics = read_file(folder / "run/metrics.jsonl");
  EXPECT_NE(metrics.find("val_exact_match"), std::string::npos);
  save_npy(folder / "one.npy", select(features, 0, 0).contiguous());
  const Ran told = heed(fmt::format("caption {} {}", run, (folder / "one.npy").native()));
  EXPECT_EQ(told.code, 0) << told.out;
  EXPECT_FALSE(told.out.empty());
  // The file that it learned from holds many images: a caption each, the first as above.
  const Ran all =
      heed(fmt::format("caption {} {} --batch 5", run, (folder / "regions.safetensors").native()));
  EXPECT_EQ(all.code, 0) << all.out;
  EXPECT_EQ(std::count(all.out.begin(), all.out.end(), '\n'), kImages);
  EXPECT_TRUE(all.out.starts_with((folder / "regions.safetensors").native() + "[0]\t" + told.out));
  // A run of 4 steps that goes on is the run of 8; another may start from its weights.
  const Ran half =
      heed(fmt::format("{} --steps 8 --checkpoint-every 4 --keep 9 --out {}-cut", train, run));
  ASSERT_EQ(half.code, 0) << half.out;
  std::filesystem::remove_all(folder / "run-cut/checkpoints/step-000008");
  const Ran resumed = heed(
      fmt::format("{} --steps 8 --checkpoint-every 4 --keep 9 --resume --out {}-cut", train, run));
  ASSERT_EQ(resumed.code, 0) << resumed.out;
  EXPECT_EQ(read_file(folder / "run-cut/model/model.safetensors"),
            read_file(folder / "run/model/model.safetensors"));
  const Ran from = heed(fmt::format("{} --steps 2 --from {} --out {}-from", train, run, run));
  EXPECT_EQ(from.code, 0) << from.out;
  const Ran images =
      heed(fmt::format("{} --steps 2 --arch vision-encoder-decoder --out {}-x", train, run));
  EXPECT_EQ(images.code, 2) << images.out;
}

TEST(CaptionCommand, DescribesPictures) {
  const TemporaryFolder folder;
  const std::filesystem::path model = folder / "model";
  std::filesystem::copy(golden("models/vit_gpt2"), model);
  std::vector<std::string> words{"[UNK]", "<s>", "</s>"};
  while (words.size() < 37) {
    words.push_back(fmt::format("w{}", words.size()));
  }
  write_words(model, words);
  write_file_atomically(folder / "image.pgm", "P5 8 8 255\n" + std::string(64, 'q'));
  const Ran ran = heed(fmt::format("caption {} {} --max-tokens 5 --json", model.native(),
                                   (folder / "image.pgm").native()));
  ASSERT_EQ(ran.code, 0) << ran.out;
  const nlohmann::json found = nlohmann::json::parse(ran.out);
  EXPECT_EQ(found["image"], (folder / "image.pgm").native());
  ASSERT_EQ(found["captions"].size(), 1U);
  EXPECT_EQ(found["captions"][0]["text"].get<std::string>().find('w'), 0U) << ran.out;
  const Ran features =
      heed(fmt::format("caption {} {}", model.native(), (folder / "absent.npy").native()));
  EXPECT_EQ(features.code, 2);
  EXPECT_NE(features.out.find("pictures"), std::string::npos) << features.out;
}

}  // namespace
}  // namespace heed::test
