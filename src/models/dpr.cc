#include "base/check.h"
#include "models/common.h"
#include "models/registry.h"
#include "models/task_heads.h"

namespace heed {
namespace {

/// BERT's configuration, which a DPR's is but for its name.
Json bert_part(const Json& config) {
  return JsonBuilder(config)
      .set("model_type", "bert")
      .set("architectures", std::vector<std::string>{"BertModel"})
      .build(config.file());
}

/// Where an encoder's parameters are: a question encoder's or a passage encoder's.
std::string side_of(const Json& config, const Scope& root) {
  const std::string name = architecture(config);
  check_data(name.empty() || name == "DPRQuestionEncoder" || name == "DPRContextEncoder",
             config.file(), "{} is not supported; use DPRQuestionEncoder or DPRContextEncoder",
             name);
  const bool context = name.empty()
                           ? root.has("ctx_encoder.bert_model.embeddings.word_embeddings.weight")
                           : name == "DPRContextEncoder";
  return context ? "ctx_encoder" : "question_encoder";
}

/// Dense passage retrieval (Karpukhin et al. 2020): BERT, whose first row is the text's vector,
/// with a projection where projection_dim is not 0.
class Dpr final : public Model {
 public:
  Dpr(const Json& config, const Scope& root)
      : bert_(make_model(bert_part(config), root / side_of(config, root) / "bert_model")) {
    const int64_t size = config.integer_or("projection_dim", 0, 0, 1 << 24);
    if (size > 0) {
      projection_ =
          Linear(root / side_of(config, root) / "encode_proj", bert_->hidden_size(), size);
    }
  }

  ModelKind kind() const override { return ModelKind::encoder; }
  int64_t vocab_size() const override { return bert_->vocab_size(); }
  int64_t context_length() const override { return bert_->context_length(); }
  int64_t hidden_size() const override { return bert_->hidden_size(); }
  int64_t num_layers() const override { return bert_->num_layers(); }
  int64_t num_heads() const override { return bert_->num_heads(); }
  void set_gradient_checkpointing(bool on) override { bert_->set_gradient_checkpointing(on); }

  ModelOutput do_forward(const ModelInput& input) const override {
    ModelOutput output = bert_->forward(input);
    const Tensor first = contiguous(select(output.last_hidden_state, 1, 0));
    output.pooler_output = projection_.defined() ? projection_(first) : first;
    return output;
  }

  EncoderOutput encode(const ModelInput& input) const override { return bert_->encode(input); }

 private:
  std::unique_ptr<Model> bert_;
  Linear projection_;
};

}  // namespace

ModelSpec dpr_spec() {
  ModelSpec spec;
  spec.model_type = "dpr";
  spec.kind = ModelKind::encoder;
  spec.heads = {{"DPRContextEncoder", "feature-extraction", "ctx_encoder."},
                {"DPRQuestionEncoder", "feature-extraction", "question_encoder."}};
  spec.pooler_is_embedding = true;
  spec.make = [](const Json& config, const Scope& scope) -> std::unique_ptr<Model> {
    return std::make_unique<Dpr>(config, scope);
  };
  return spec;
}

}  // namespace heed
