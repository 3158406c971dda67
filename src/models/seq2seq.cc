#include "models/seq2seq.h"

#include <cmath>

#include "base/check.h"
#include "base/language.h"
#include "models/fresh_config.h"
#include "models/sparse_mixers.h"

namespace heed {
namespace {

StackSizes sizes_of(const Json& config, const std::string& side, const Seq2SeqConfig& family) {
  StackSizes sizes = stack_sizes(config, side);
  sizes.activation = activation_of(config, "activation_function", family.activation);
  sizes.eps = 1e-5;  // these families keep PyTorch's, whatever the configuration says
  sizes.init = Init::normal(positive_or(config, "init_std", 0.02));
  sizes.pre_norm = family.pre_norm;
  if (family.longformer_encoder && side == "encoder") {
    EncoderConfig layer;
    layer.hidden_size = sizes.width;
    layer.num_heads = sizes.heads;
    layer.attention_dropout = sizes.attention_dropout;
    layer.init = *sizes.init;
    layer.names.query = "longformer_self_attn.query";
    layer.names.key = "longformer_self_attn.key";
    layer.names.value = "longformer_self_attn.value";
    layer.names.output = "output";
    sizes.make_mixer = [layer, windows = attention_windows(config, sizes.layers)](
                           const Scope& scope, int64_t index) {
      return longformer_mixer(scope, layer, windows[static_cast<size_t>(index)]);
    };
  }
  return sizes;
}

class Seq2SeqModel final : public TokenTranslator {
 public:
  Seq2SeqModel(const Json& config, const Scope& root, const Seq2SeqConfig& family)
      : TokenTranslator(config, family.family, sizes_of(config, "encoder", family),
                        sizes_of(config, "decoder", family), 1024),
        family_(family),
        head_kind_(head_of(config, root)),
        init_(*encoder_sizes_.init) {
    check_size(config, root,
               static_cast<double>(vocab_size_) * static_cast<double>(hidden_size_) +
                   stack_parameters(encoder_sizes_, false) +
                   stack_parameters(decoder_sizes_, true));
    read_tokens_of(config);
    if (family_.longformer_encoder) {
      reads_global_mask_ = true;
      context_length_ = size_or(config, "max_encoder_position_embeddings", 16384);
      decoder_context_ = size_or(config, "max_decoder_position_embeddings", 1024);
    }
    reads_answers_ = head_kind_ == Head::question;
    root.allow_prefix(family_.base + ".");
    root.ignore({"*encoder.version", "*decoder.version"},
                say("a version number of old checkpoints"));
    const Scope base = head_kind_ == Head::none ? root : root / family_.base;
    const Embedding words = make_stacks(config, base);
    if (head_kind_ == Head::sequence) {
      make_classification_head(config, root);
    } else if (head_kind_ == Head::question) {
      classifier_ = Linear(root / "qa_outputs", hidden_size_, 2, {.init = init_});
      root.ignore({"final_logits_bias", "lm_head.weight"},
                  say("the LM head, which a classifier lacks"));
    } else {
      make_lm_head(config, root, words);
    }
  }

  ModelKind kind() const override {
    return classifies() ? ModelKind::encoder : ModelKind::encoder_decoder;
  }

  ModelOutput do_forward(const ModelInput& given) const override {
    ModelInput input = given;
    const bool labelled = !classifies() && given.labels.defined();
    input.decoder_input_ids = decoder_ids(given);
    if (head_kind_ == Head::generation || labelled) {
      return EncoderDecoder::do_forward(input);
    }
    const BothSides both = run_both(input);
    ModelOutput output;
    if (head_kind_ == Head::sequence) {
      output = classify(both, input);
    } else if (head_kind_ == Head::question) {
      output = answer_results(classifier_(both.rows), both.target, input);
    } else {
      output.last_hidden_state = both.target.to_batch(both.rows);
    }
    output.encoder_last_hidden_state = both.source.to_batch(both.encoded.rows);
    return output;
  }

  Tensor decoder_ids(const ModelInput& input) const override {
    const bool labelled = !classifies() && input.labels.defined();
    if (family_.decoder_reads_source && !labelled && !input.decoder_input_ids.defined()) {
      return shifted(input.input_ids);
    }
    return classifies() ? input.decoder_input_ids : EncoderDecoder::decoder_ids(input);
  }

  Tensor do_logits(const Tensor& rows) const override {
    check(head_.defined(), "generate", "this {} has no LM head of its own and none is tied",
          family_.family);
    return EncoderDecoder::do_logits(rows);
  }

 private:
  enum class Head { generation, sequence, question, none };

  bool classifies() const { return head_kind_ == Head::sequence || head_kind_ == Head::question; }

  Head head_of(const Json& config, const Scope& root) const {
    const auto named =
        named_head<Head>(config, {{family_.family + family_.generation_class, Head::generation},
                                  {family_.family + "ForSequenceClassification", Head::sequence},
                                  {family_.family + "ForQuestionAnswering", Head::question},
                                  {family_.family + "Model", Head::none}});
    const bool reads = named && (*named == Head::sequence || *named == Head::question);
    check_data(!reads || family_.decoder_reads_source, config.file(),
               "architecture '{}' is not supported; BART, mBART and LED have that head",
               architecture(config));
    const bool reading = family_.decoder_reads_source;
    return named.value_or(reading && root.has("classification_head.dense.weight") ? Head::sequence
                          : reading && root.has("qa_outputs.weight")              ? Head::question
                                                                     : Head::generation);
  }

  void read_tokens_of(const Json& config) {
    const int64_t last = target_.vocabulary - 1;
    auto or_last = [&](const std::optional<int64_t>& token) {
      return std::min(token.value_or(last), last);
    };
    const int64_t padding =
        token_or(config, "pad_token_id", or_last(family_.padding), target_.vocabulary);
    set_target(config, decoder_sizes_, padding, family_.start ? or_last(family_.start) : padding);
    if (family_.starts_with_last_label) {
      target_.start = kLastLabel;
    }
  }

  /// Gives the decoder's embedding.
  Embedding make_stacks(const Json& config, const Scope& base) {
    const bool shared =
        !family_.sides_may_differ || config.boolean_or("share_encoder_decoder_embeddings", true);
    check_data(!shared || target_.vocabulary == vocab_size_, config.file(),
               "decoder_vocab_size {} differs from vocab_size {}, yet the embeddings are shared",
               target_.vocabulary, vocab_size_);
    Embedding source;
    Embedding target;
    if (shared) {
      source = target =
          Embedding(base / "shared", vocab_size_, hidden_size_, init_, target_.padding);
      base.alias("encoder.embed_tokens.weight");
      base.alias("decoder.embed_tokens.weight");
    } else {
      source = Embedding(base / "encoder" / "embed_tokens", vocab_size_, hidden_size_, init_,
                         token_or(config, "pad_token_id", vocab_size_ - 1, vocab_size_));
      target = Embedding(base / "decoder" / "embed_tokens", target_.vocabulary, hidden_size_, init_,
                         target_.padding);
    }
    TokenStack::Options options;
    options.learned_positions = family_.learned_positions;
    options.stored_sinusoids = true;
    options.sinusoids = family_.sinusoids;
    options.position_offset = family_.position_offset;
    if (family_.positions_count_real_tokens) {
      options.uncounted_token = target_.padding;
      options.position_offset = target_.padding + 1;
      options.stored_sinusoids = false;
      base.ignore({"*embed_positions.weights", "*embed_positions.weight"},
                  say("sinusoids, which heed computes itself"), true);
    }
    options.embedding_norm = family_.embedding_norm;
    options.final_norm = family_.final_norm;
    const bool may_scale = !family_.longformer_encoder;  // LED has no such option
    options.scale = may_scale && config.boolean_or("scale_embedding", family_.scale_embedding)
                        ? std::sqrt(static_cast<double>(hidden_size_))
                        : 1.0;
    make_encoder(base, source, options);
    make_decoder(base, target, options);
    return target;
  }

  void make_lm_head(const Json& config, const Scope& root, const Embedding& words) {
    Tensor bias;
    const bool stored = root.is_fresh() || root.has("final_logits_bias");
    if (family_.logits_bias && stored && head_kind_ == Head::generation) {
      bias = reshape(root.buffer("final_logits_bias", {1, target_.vocabulary}, Init::zeros()),
                     {target_.vocabulary});
    }
    if (head_kind_ == Head::generation || config.boolean_or("tie_word_embeddings", true)) {
      head_ = lm_head(config, root / "lm_head", words, bias, init_);
    }
  }

  void make_classification_head(const Json& config, const Scope& root) {
    // transformers leaves two labels out of config.json, although BART's own default is three.
    const auto stored = root.shape_of("classification_head.out_proj.weight");
    const int64_t labels = label_count(config, stored && stored->rank() == 2 ? (*stored)[0] : 3);
    const Scope scope = root / "classification_head";
    dense_ = Linear(scope / "dense", hidden_size_, hidden_size_, {.init = init_});
    check_size(config, root, static_cast<double>(hidden_size_) * static_cast<double>(labels));
    classifier_ = Linear(scope / "out_proj", hidden_size_, labels, {.init = init_});
    problem_ = problem_type_of(config);
    dropout_ = rate_or(config, "classifier_dropout", 0.0);
    end_ = token_or(config, "eos_token_id", std::min<int64_t>(2, vocab_size_ - 1), vocab_size_);
    root.ignore({"final_logits_bias", "lm_head.weight"},
                say("the LM head, which a classifier lacks"));
  }

  /// Decoder inputs from the source's own tokens.
  Tensor shifted(const Tensor& ids) const {
    ModelInput source;
    source.labels = ids;
    return target_ids(source, target_.start, target_.padding);
  }

  /// From the decoder's row at the last end token of each source.
  ModelOutput classify(const BothSides& both, const ModelInput& input) const {
    const Tensor ids = input.input_ids.to(DType::i64).contiguous();
    check(ids.shape() == Shape({both.target.batch, both.target.length}), "forward",
          "decoder_input_ids must have the shape {} of input_ids to classify a sequence",
          ids.shape());
    std::vector<int64_t> ends(static_cast<size_t>(ids.size(0)), -1);
    for (int64_t i = 0; i < ids.numel(); ++i) {
      if (ids.data<int64_t>()[i] == end_) {
        ends[static_cast<size_t>(i / ids.size(1))] = i;
      }
    }
    for (size_t b = 0; b < ends.size(); ++b) {
      check(ends[b] >= 0, "forward", "sequence {} has no eos_token_id {}, which is classified", b,
            end_);
    }
    const Tensor pooled =
        index_rows(both.rows, Tensor::from(ends, {static_cast<int64_t>(ends.size())}));
    const Pass pass = both.target.pass(input);
    const Tensor hidden = dense_(pass.dropout(pooled, dropout_), Activation::tanh);
    return sequence_results(pass.dropout(hidden, dropout_), classifier_, input, problem_);
  }

  Seq2SeqConfig family_;
  Head head_kind_;
  Init init_;
  Linear dense_, classifier_;
  ProblemType problem_ = ProblemType::unspecified;
  double dropout_ = 0.0;
  int64_t end_ = 0;
};

}  // namespace

std::unique_ptr<Model> make_seq2seq(const Json& config, const Scope& root,
                                    const Seq2SeqConfig& family) {
  return std::make_unique<Seq2SeqModel>(config, root, family);
}

ModelSpec seq2seq_spec(const std::string& model_type, const Seq2SeqConfig& family) {
  ModelSpec spec;
  spec.model_type = model_type;
  spec.kind = ModelKind::encoder_decoder;
  if (family.decoder_reads_source) {
    spec.heads.push_back({family.family + "ForSequenceClassification", "text-classification",
                          "classification_head."});
    spec.heads.push_back(
        {family.family + "ForQuestionAnswering", "question-answering", "qa_outputs."});
  }
  spec.heads.push_back({family.family + family.generation_class, "translation", family.base + "."});
  spec.heads.push_back({family.family + "Model", "", ""});
  spec.ties = {.prefix = family.base + ".",
               .embedding = "shared.weight",
               .lm_head = "lm_head.weight",
               .copies = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"},
               .sides_may_differ = family.sides_may_differ};
  spec.train_tasks = {"translate", "fid"};
  spec.fresh_config = [model_type](const FreshSizes& sizes) {
    return stack_fresh_config(model_type, sizes);
  };
  spec.make = [family](const Json& config, const Scope& scope) {
    return make_seq2seq(config, scope, family);
  };
  return spec;
}

}  // namespace heed
