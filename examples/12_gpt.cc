// Lesson 12. A GPT on your own text: 12_gpt [FILE]. Without a file it learns a few lines by heart.
#include <fstream>
#include <iostream>
#include <sstream>

#include "heed/data.h"
#include "heed/generate.h"
#include "heed/picture.h"
#include "heed/train.h"
#include "lesson.h"

using namespace heed;
using lesson::say;

namespace {

const char* const kText =
    "The cat sat on the mat and looked at the moon.\n"
    "The moon looked back and said nothing at all.\n"
    "고양이는 자리에 앉아 달을 보았다.\n"
    "달도 고양이를 보았지만 아무 말도 하지 않았다.\n";

}  // namespace

int main(int argc, char** argv) {
  std::ostringstream file;
  const bool own = argc > 1 && *argv[1] != '\0';
  for (int i = 0; !own && i < 20; ++i) {
    file << kText;
  }
  if (own) {
    file << std::ifstream(argv[1]).rdbuf();
  }
  const std::string text = file.str();
  // One token per character: any language, nothing to download.
  const std::string_view views[] = {text};
  const Tokenizer tokenizer = train_tokenizer(views, {.kind = TokenizerKind::character});
  const TokenShard shard = TokenShard::from({tokenizer.encode_ids(text, false)});
  const auto loader = make_lm_loader(shard, 128, {.batch = 4});
  const std::string config = R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4,
      "n_positions": 128, "vocab_size": )";
  const auto model = create_model(config + std::to_string(tokenizer.vocab_size()) + "}", 1);
  std::cout << shard.tokens() << say(" characters, ", "글자, 서로 다른 글자 ")
            << tokenizer.vocab_size() << say(" different ones, ", "개, 파라미터 ")
            << model->parameter_count() << say(" parameters\n", "개\n");

  constexpr int64_t kSteps = 250;
  Optimizer optimizer(decay_groups(named_tensors(model->parameters()), 0.1), {});
  const Schedule schedule{ScheduleKind::cosine, 5e-3, 20, kSteps, 0.1};
  Series losses{.name = say("loss", "손실")};
  for (int64_t step = 1; step <= kSteps; ++step) {
    const Batch batch = loader->next();
    const Tensor loss = model->forward({.input_ids = batch.input_ids, .labels = batch.labels}).loss;
    losses.x.push_back(static_cast<double>(step));
    losses.y.push_back(loss.item());
    backward(loss);
    optimizer.set_lr(schedule.lr(step));
    optimizer.step();
    optimizer.zero_grad();
  }
  std::cout << say("after ", "") << kSteps
            << say(" steps: loss below 0.1: ", "스텝 뒤 손실이 0.1보다 작음: ")
            << lesson::yes_or_no(losses.y.back() < 0.1) << "\n";
  if (argc > 2) {  // a folder for the lesson's picture
    save_picture(std::string(argv[2]) + "/12.svg",
                 LinePlot{.title = say("Learning by heart", "외우기"),
                          .x_title = say("Step", "스텝"),
                          .y_title = say("Loss", "손실"),
                          .series = {losses}});
  }

  // Greedy continuation, a character at a time.
  const std::string prompt = text.substr(0, text.find(' ', 4));
  const std::vector<TokenId> ids = tokenizer.encode_ids(prompt, false);
  Request request{.prompt = {ids.begin(), ids.end()}, .max_tokens = 100};
  TextStream stream(tokenizer, {});
  request.on_token = [&](const SampledToken& t) { return !!(std::cout << stream.push(t.id)); };
  std::cout << prompt;
  const NoGrad no_grad;
  Scheduler scheduler(*model);
  scheduler.add(request);
  scheduler.run();
  std::cout << stream.finish() << "\n";
}
