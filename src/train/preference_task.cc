#include <algorithm>

#include "base/check.h"
#include "base/checksum.h"
#include "data/targets.h"
#include "heed/ops.h"
#include "train/conversations.h"
#include "train/preference.h"
#include "train/task.h"
#include "train/task_config.h"

// Direct preference optimisation: a model learns to prefer one of two answers.

namespace heed {
namespace {

/// Two answers to one prompt, each behind it.
struct Preference {
  std::vector<TokenId> chosen, rejected;
  TokenId prompt = 0;  ///< tokens of the prompt
};

/// Pairs as a batch: input_ids holds the chosen texts, decoder_input_ids the rejected ones, labels
/// [B] the lengths of the prompts.
class PreferenceLoader final : public Loader {
 public:
  PreferenceLoader(const std::vector<Preference>& rows, const SequenceTokens& tokens,
                   const LoaderOptions& options)
      : Loader(options), tokens_(tokens) {
    std::vector<std::vector<TokenId>> chosen, rejected, prompts;
    for (const Preference& row : rows) {
      chosen.push_back(row.chosen);
      rejected.push_back(row.rejected);
      prompts.push_back({row.prompt});
    }
    chosen_ = TokenShard::from(chosen);
    rejected_ = TokenShard::from(rejected);
    prompts_ = TokenShard::from(prompts);
    const uint64_t all[3] = {chosen_.fingerprint(), rejected_.fingerprint(),
                             prompts_.fingerprint()};
    set_examples(chosen_.sequences(), fingerprint_of(all, sizeof(all), 0), true);
  }

 protected:
  int64_t length_of(int64_t example) const override {
    return chosen_.length(example) + rejected_.length(example);
  }

  Batch collate(const std::vector<int64_t>& examples, int64_t begin, int64_t end,
                int64_t) const override {
    Batch other;
    fill_inputs(other, rejected_, examples, tokens_, options().max_length);
    Batch batch;
    fill_inputs(batch, chosen_, examples, tokens_, options().max_length);
    batch.decoder_input_ids = other.input_ids;
    batch.decoder_attention_mask = other.attention_mask;
    batch.labels = Tensor::empty({batch.rows}, DType::i64);
    for (int64_t row = 0; row < batch.rows; ++row) {
      prompts_.copy(examples[static_cast<size_t>(row)], 1, batch.labels.data<int64_t>() + row);
    }
    Batch part = batch_rows(batch, begin, end);
    part.global_targets = batch.rows;
    return part;
  }

 private:
  TokenShard chosen_, rejected_, prompts_;
  SequenceTokens tokens_;
};

/// A prompt and an answer that are texts, as they are: the end token says that the answer is over.
std::vector<TokenId> plain_answer(const std::vector<TokenId>& prompt, const std::string& answer,
                                  const Tokenizer& tokenizer, TokenId end) {
  std::vector<TokenId> ids = prompt;
  const std::vector<TokenId> own = tokenizer.encode_ids(answer, false);
  ids.insert(ids.end(), own.begin(), own.end());
  if (end >= 0) {
    ids.push_back(end);
  }
  return ids;
}

/// Messages of the prompt and an answer as one conversation: where the answer begins, and its ids.
std::vector<TokenId> chat_answer(const Json& prompt, const Json& answer, const ChatTemplate& tmpl,
                                 const Tokenizer& tokenizer, std::vector<TokenId>& before) {
  const auto join = [](std::initializer_list<Json> lists) {
    std::string text = "[";
    for (const Json& list : lists) {
      for (const Json& message : list.elements()) {
        text += (text.size() == 1 ? "" : ",") + message.dump();
      }
    }
    return text + "]";
  };
  ChatOptions asks;
  asks.add_generation_prompt = true;
  const std::string asked = tmpl.render(join({prompt}), asks);
  const std::string whole = tmpl.render(join({prompt, answer}));
  check_data(whole.starts_with(asked), answer.file(),
             "the model's chat template changes the prompt once it is answered; preferences "
             "cannot be compared");
  before = tokenizer.encode_ids(asked, false);
  std::vector<TokenId> ids = before;
  const std::vector<TokenId> own = tokenizer.encode_ids(whole.substr(asked.size()), false);
  ids.insert(ids.end(), own.begin(), own.end());
  return ids;
}

std::vector<Preference> read_preferences(const std::string& data, const TrainOptions& o,
                                         const Tokenizer& tokenizer, TokenId end, int64_t most) {
  std::optional<ChatTemplate> tmpl;
  std::vector<Preference> rows;
  visit_json_lines(data, [&](const Json& row, const std::string& where) {
    const Json prompt = row.at("prompt");
    const Json chosen = row.at("chosen");
    const Json rejected = row.at("rejected");
    Preference pair;
    std::vector<TokenId> before;
    if (prompt.is_array()) {
      tmpl = tmpl ? tmpl : template_for(o.from, data);
      pair.rejected = chat_answer(prompt, rejected, *tmpl, tokenizer, before);
      pair.chosen = chat_answer(prompt, chosen, *tmpl, tokenizer, before);
    } else {
      before = tokenizer.encode_ids(prompt.string(), true);
      pair.chosen = plain_answer(before, chosen.string(), tokenizer, end);
      pair.rejected = plain_answer(before, rejected.string(), tokenizer, end);
    }
    pair.prompt = static_cast<TokenId>(before.size());
    check_data(pair.prompt > 0, where, "the prompt has no tokens");
    check_data(std::cmp_less(pair.prompt, most), where,
               "the prompt has {} tokens; a context of {} leaves no room for an answer",
               pair.prompt, most);
    rows.push_back(std::move(pair));
  });
  return rows;
}

/// Sum of log-probabilities of row `row` of `ids` behind its prompt, a scalar.
Tensor log_probability(const Model& model, const ModelInput& pairs, const Tensor& ids,
                       const Tensor& mask, int64_t row) {
  int64_t length = ids.size(1);
  if (mask.defined()) {
    const Tensor real = mask.contiguous();
    const int64_t* values = real.data<int64_t>() + row * length;
    length = std::count(values, values + length, 1);
  }
  const Tensor dense = slice(slice(ids, 0, row, row + 1), 1, 0, length).contiguous();
  const int64_t prompt = pairs.labels.contiguous().data<int64_t>()[row];
  ModelInput input;
  input.input_ids = dense;
  input.labels = dense.clone();
  std::fill_n(input.labels.data<int64_t>(), std::min(prompt, length), -100);
  input.training = pairs.training;
  input.first_example = pairs.first_example + row;
  input.want_logits = false;
  const int64_t targets = std::max<int64_t>(length - prompt, 0);
  return targets == 0 ? Tensor::scalar(0.0)
                      : mul(model.forward(input).loss, -static_cast<double>(targets));
}

}  // namespace

Tensor preference_loss(const Model& model, const Model& reference, const ModelInput& pairs,
                       double beta) {
  Tensor sum;
  const int64_t rows = pairs.input_ids.size(0);
  for (int64_t row = 0; row < rows; ++row) {
    const auto both = [row](const Model& of, const ModelInput& in) {
      return sub(log_probability(of, in, in.input_ids, in.attention_mask, row),
                 log_probability(of, in, in.decoder_input_ids, in.decoder_attention_mask, row));
    };
    double before = 0.0;
    {
      const NoGrad no_grad;
      ModelInput still = pairs;
      still.training = false;
      before = both(reference, still).item();
    }
    // -log sigmoid(x) = softplus(-x), the cross entropy of the logits [x, 0] with class 0.
    const Tensor x = mul(add(both(model, pairs), -before), beta);
    const Tensor logits = concat({reshape(x, {1, 1}), Tensor::zeros({1, 1})}, 1);
    CrossEntropyOptions options;
    options.label_smoothing = 2.0 * pairs.label_smoothing;  // of each of the two answers
    const Tensor loss = cross_entropy(logits, Tensor::from(std::vector<int64_t>{0}, {1}), options);
    sum = sum.defined() ? add(sum, loss) : loss;
  }
  return mul(sum, 1.0 / static_cast<double>(rows));
}

Task make_preference_task(const TrainOptions& o) {
  if (o.from.empty()) {
    fail(ErrorKind::usage, "task", "preference fine-tunes a model: say from which one");
  }
  Task task;
  task.metric = TaskMetric::preference;
  task.tokenizer = choose_tokenizer(o, "", {});
  task.model = start_model(o, Config());
  check_data(task.model->kind() == ModelKind::decoder, o.from, "a {} does not do task {}",
             task.model->model_type(), o.task);
  const SequenceTokens tokens = sequence_tokens(task.tokenizer, *task.model);
  add_loaders(task, o, [&](bool own_set, const LoaderOptions& loader) {
    return std::make_unique<PreferenceLoader>(
        read_preferences(own_set ? o.validation : o.data, o, task.tokenizer, tokens.end,
                         loader.max_length),
        tokens, loader);
  });
  // The model as it was: mapped, so that it takes no further memory.
  std::shared_ptr<const Model> reference = load_model(o.from);
  task.loss = [reference, beta = o.dpo_beta](const Model& model, const ModelInput& pairs) {
    return preference_loss(model, *reference, pairs, beta);
  };
  return task;
}

}  // namespace heed
