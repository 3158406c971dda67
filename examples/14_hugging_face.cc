// Lesson 14. Hugging Face folders: lesson14 [FOLDER]. Without one, reads a tiny BERT that it makes.
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "heed/inspect.h"
#include "heed/models.h"
#include "heed/picture.h"
#include "heed/text.h"
#include "lesson.h"

using namespace heed;
using lesson::say;

namespace {

/// config.json, model.safetensors and tokenizer.json, as AutoModel.from_pretrained wants them.
std::filesystem::path make_folder(const std::filesystem::path& folder) {
  const std::string_view texts[] = {"the cat sat on the mat", "the dog sat by the door"};
  const Tokenizer tokenizer = train_tokenizer(
      texts, {.kind = TokenizerKind::wordpiece, .vocab_size = 200, .min_frequency = 1});
  tokenizer.save(folder);
  const auto model = create_model(
      R"({"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 32,
          "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
          "max_position_embeddings": 64, "type_vocab_size": 2, "vocab_size": )" +
          std::to_string(tokenizer.vocab_size()) + "}",
      1);
  save_model(*model, folder);
  return folder;
}

}  // namespace

int main(int argc, char** argv) {
  const lesson::Scratch scratch;
  const std::filesystem::path folder =
      argc > 1 && *argv[1] != 0 ? argv[1] : make_folder(scratch.path() / "bert");
  // Weights are mapped, not read: opening takes no time and shares memory with other processes.
  const auto model = load_model(folder);
  const Tokenizer tokenizer = Tokenizer::load(folder);
  std::printf(say("%s: %ld layers, %ld heads, hidden size %ld, %ld parameters\n",
                  "%s: 층 %ld개, 헤드 %ld개, 은닉 크기 %ld, 파라미터 %ld개\n"),
              model->model_type().c_str(), model->num_layers(), model->num_heads(),
              model->hidden_size(), model->parameter_count());
  const Parameter& first = model->parameters()[0];
  std::printf(say("first of them: %s %s\n", "첫 파라미터: %s %s\n"), first.name.c_str(),
              first.tensor.shape().to_string().c_str());
  const Encoding encoding = tokenizer.encode("the cat sat by the door");
  for (const std::string& token : encoding.tokens) {
    std::printf("%s ", token.c_str());
  }
  ModelInput input;
  input.input_ids =
      Tensor::from(encoding.ids, {1, static_cast<int64_t>(encoding.ids.size())}).to(DType::i64);
  const NoGrad no_grad;
  Recorder recorder;
  const ModelOutput output = model->forward(input);
  const Tensor result = output.logits ? output.logits : output.last_hidden_state;
  std::printf("-> %s\n", result.shape().to_string().c_str());

  if (argc > 2) {  // a folder for the lesson's picture
    Heatmap map = lesson::heatmap(say("Layer 0 of ", "0번 층: ") + model->model_type());
    map.panels_across = 2;
    map.row_labels = map.column_labels = encoding.tokens;
    for (int64_t head = 0; head < model->num_heads(); ++head) {
      map.panels.push_back({lesson::head(head), recorder.attentions()[0].record.weights(0, head)});
    }
    save_picture(std::string(argv[2]) + "/14.svg", map);
  }

  // Saved in half the size, read again, hardly changed.
  const std::filesystem::path half = scratch.path() / "bf16";
  save_model(*model, half, DType::bf16);
  const ModelOutput again = load_model(half)->forward(input);
  const Tensor change = (again.logits ? again.logits : again.last_hidden_state) - result;
  std::printf(say("model.safetensors in bf16: %.0f %% of the size, results within 2 %%: %s\n",
                  "bf16으로 저장한 model.safetensors: 크기 %.0f %%, 결과 차이 2 %% 이내: %s\n"),
              100.0 * static_cast<double>(std::filesystem::file_size(half / "model.safetensors")) /
                  static_cast<double>(std::filesystem::file_size(folder / "model.safetensors")),
              lesson::yes_or_no(sum(change * change).item() < 4e-4 * sum(result * result).item()));
}
