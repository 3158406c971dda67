#include "base/check.h"
#include "train/conversations.h"
#include "train/task.h"
#include "train/task_config.h"

namespace heed {
namespace {

std::vector<MarkedTokens> read_conversations(const std::string& data, const ChatTemplate& tmpl,
                                             const Tokenizer& tokenizer) {
  std::vector<MarkedTokens> rows;
  visit_json_lines(data, [&](const Json& row, const std::string& where) {
    const auto tools = row.find("tools");
    rows.push_back(
        mark_conversation(row.at("messages"), tools ? tools->dump() : "", tmpl, tokenizer, where));
    check_data(rows.back().ids.size() >= 2, where, "the conversation has no text");
  });
  return rows;
}

}  // namespace

Task make_chat_task(const TrainOptions& o) {
  const ChatTemplate tmpl = template_for(o.from, o.data);
  Task task;
  task.tokenizer = choose_tokenizer(o, "", {});
  const std::vector<MarkedTokens> train = read_conversations(o.data, tmpl, task.tokenizer);
  bool learns = false;
  for (const MarkedTokens& row : train) {
    learns = learns || std::find(row.learned.begin(), row.learned.end(), 1) != row.learned.end();
  }
  check_data(learns, o.data,
             "no assistant's turn can be told apart in the text that the model's chat template "
             "makes of it");
  task.model = start_model(o, Config());
  check_data(task.model->kind() == ModelKind::decoder, o.from, "a {} does not do task {}",
             task.model->model_type(), o.task);
  const SequenceTokens tokens = sequence_tokens(task.tokenizer, *task.model);
  add_loaders(task, o, [&](bool own_set, const LoaderOptions& loader) {
    return make_marked_loader(
        own_set ? read_conversations(o.validation, tmpl, task.tokenizer) : train, tokens, loader);
  });
  return task;
}

}  // namespace heed
