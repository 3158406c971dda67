#include <gtest/gtest.h>

#include <cmath>

#include "heed/io.h"
#include "heed/ops.h"
#include "heed/retrieval.h"
#include "heed/runtime.h"
#include "heed/tensor.h"
#include "retrieval/support.h"
#include "support/check.h"

// FiD, DPR and RAG against the reference implementations (tests/golden/generate_retrieval.py).

namespace heed {
namespace {

std::filesystem::path fid_folder() { return test::golden("retrieval/fid"); }

ModelInput golden_input() {
  const TensorMap tensors = load_safetensors(fid_folder() / "inputs.safetensors");
  ModelInput input;
  input.input_ids = tensors.at("input_ids");
  input.attention_mask = tensors.at("attention_mask");
  input.labels = tensors.at("labels");
  input.passages = 3;
  return input;
}

/// The passages of one question of a batch.
ModelInput one_question(const ModelInput& input, int64_t question) {
  ModelInput one = input;
  const int64_t begin = question * input.passages;
  one.input_ids = slice(input.input_ids, 0, begin, begin + input.passages).contiguous();
  one.attention_mask = slice(input.attention_mask, 0, begin, begin + input.passages).contiguous();
  one.labels = {};
  one.skip_padding = true;
  return one;
}

void expect_gradients(const Model& model, const std::filesystem::path& folder) {
  const TensorMap expected = load_safetensors(folder / "grads.safetensors");
  size_t compared = 0;
  for (const Parameter& parameter : model.parameters()) {
    if (parameter.name.ends_with("k_proj.bias")) {
      continue;  // exactly, it is 0: what is added to all scores of a row changes nothing
    }
    if (expected.contains(parameter.name) && parameter.tensor.grad().defined()) {
      test::expect_norm_close(parameter.tensor.grad(), expected.at(parameter.name), test::kModel,
                              parameter.name);
      ++compared;
    }
  }
  EXPECT_GT(compared, 20u);
}

TEST(Fid, LossAndLogitsAreTheReferences) {
  const std::unique_ptr<Model> model = load_model(fid_folder());
  const TensorMap expected = load_safetensors(fid_folder() / "outputs.safetensors");
  for (const bool skip : {false, true}) {
    ModelInput input = golden_input();
    input.skip_padding = skip;
    const ModelOutput output = model->forward(input);
    test::expect_norm_close(output.loss, expected.at("loss"), test::kModel, "loss");
    test::expect_norm_close(output.logits, expected.at("logits"), test::kModel, "logits");
  }
}

TEST(Fid, GradientsAreTheReferences) {
  const std::unique_ptr<Model> model = load_model(fid_folder(), {.trainable = true});
  ModelInput input = golden_input();
  input.skip_padding = true;
  backward(model->forward(input).loss);
  expect_gradients(*model, fid_folder());
}

TEST(Fid, PassageScoresAndGeneratedIdsAreTheReferences) {
  const std::unique_ptr<Model> model = load_model(fid_folder());
  const TensorMap expected = load_safetensors(fid_folder() / "outputs.safetensors");
  const std::vector<float> scores = expected.at("passage_scores").to_vector<float>();
  const Tensor ids = expected.at("generated");  // begins with the start token, ends with padding
  for (int64_t question = 0; question < 2; ++question) {
    const ModelInput input = one_question(golden_input(), question);
    const std::vector<double> found = fid_passage_scores(*model, input);
    ASSERT_EQ(found.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(found[i], scores[static_cast<size_t>(question) * 3 + i], 1e-6);
    }
    std::vector<int64_t> generated;
    Request request;
    request.encoder = input;
    request.max_tokens = 8;
    apply_generation_tokens(*model, request);
    request.on_token = [&](const SampledToken& token) {
      generated.push_back(token.id);
      return true;
    };
    Scheduler scheduler(*model, 1);
    scheduler.add(std::move(request));
    scheduler.run();
    EXPECT_GE(generated.size(), 1u);
    for (size_t i = 0; i < generated.size(); ++i) {
      EXPECT_EQ(generated[i],
                ids.data<int64_t>()[question * ids.size(1) + 1 + static_cast<int64_t>(i)]);
    }
  }
}

TEST(Fid, APassageIsEncodedByItself) {
  const std::unique_ptr<Model> model = load_model(fid_folder());
  const ModelInput input = one_question(golden_input(), 1);
  const EncoderOutput all = model->encode(input);
  int64_t row = 0;
  for (int64_t i = 0; i < 3; ++i) {
    ModelInput alone = input;
    alone.passages = 1;
    alone.input_ids = slice(input.input_ids, 0, i, i + 1).contiguous();
    alone.attention_mask = slice(input.attention_mask, 0, i, i + 1).contiguous();
    const Tensor rows = model->encode(alone).rows;
    test::expect_same_bits(slice(all.rows, 0, row, row + rows.size(0)).contiguous(), rows);
    row += rows.size(0);
  }
  EXPECT_EQ(row, all.rows.size(0));
  EXPECT_EQ(all.layout.batch, 1);
  ModelInput odd = input;
  odd.passages = 2;
  try {
    model->encode(odd);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "forward: 3 sequences cannot be 2 passages for each example");
  }
}

TEST(Dpr, EncodersAreTheReferences) {
  for (const char* name : {"retrieval/dpr_question", "retrieval/dpr_context"}) {
    const std::unique_ptr<Model> model = load_model(test::golden(name));
    const TensorMap inputs = load_safetensors(test::golden(name) / "inputs.safetensors");
    const TensorMap expected = load_safetensors(test::golden(name) / "outputs.safetensors");
    ModelInput input;
    input.input_ids = inputs.at("input_ids");
    input.attention_mask = inputs.at("attention_mask");
    for (const bool skip : {false, true}) {
      input.skip_padding = skip;
      test::expect_norm_close(model->forward(input).pooler_output, expected.at("pooler_output"),
                              test::kModel, name);
    }
  }
}

constexpr const char* kRags[] = {"rag_token_bart", "rag_sequence_bart", "rag_token_t5",
                                 "rag_sequence_t5"};

std::filesystem::path rag_folder(const char* name) {
  return test::golden(std::string("retrieval/") + name);
}

ModelInput rag_input(const TensorMap& tensors) {
  ModelInput input;
  input.context_input_ids = tensors.at("context_input_ids");
  input.context_attention_mask = tensors.at("context_attention_mask");
  input.doc_scores = tensors.at("doc_scores");
  input.labels = tensors.at("labels");
  return input;
}

TEST(Rag, LossesLogitsAndQuestionVectorsAreTheReferences) {
  for (const char* name : kRags) {
    const std::unique_ptr<Model> model = load_model(rag_folder(name));
    const TensorMap inputs = load_safetensors(rag_folder(name) / "inputs.safetensors");
    const TensorMap expected = load_safetensors(rag_folder(name) / "outputs.safetensors");
    const ModelOutput output = model->forward(rag_input(inputs));
    EXPECT_EQ(output.loss.numel(), expected.at("loss").numel()) << name;
    test::expect_norm_close(output.loss, expected.at("loss"), test::kModel, name);
    test::expect_norm_close(output.logits, expected.at("logits"), test::kModel, name);
    ModelInput question;
    question.input_ids = inputs.at("question_input_ids");
    question.attention_mask = inputs.at("question_attention_mask");
    test::expect_norm_close(model->forward(question).pooler_output, expected.at("question_vectors"),
                            test::kModel, name);
  }
}

TEST(Rag, GradientsAreTheReferences) {
  for (const char* name : kRags) {
    const std::unique_ptr<Model> model = load_model(rag_folder(name), {.trainable = true});
    const TensorMap inputs = load_safetensors(rag_folder(name) / "inputs.safetensors");
    backward(sum(model->forward(rag_input(inputs)).loss));
    expect_gradients(*model, rag_folder(name));
  }
}

TEST(Rag, GeneratedIdsAreTheReferences) {
  for (const char* name : kRags) {
    const std::unique_ptr<Model> model = load_model(rag_folder(name));
    const TensorMap inputs = load_safetensors(rag_folder(name) / "inputs.safetensors");
    const TensorMap expected = load_safetensors(rag_folder(name) / "outputs.safetensors");
    for (const int64_t beams : {1, 3}) {
      const Tensor ids = expected.at("generated_" + std::to_string(beams));
      for (int64_t question = 0; question < ids.size(0); ++question) {
        Request request;
        const ModelInput all = rag_input(inputs);
        const int64_t docs = all.doc_scores.size(1), begin = question * docs;
        request.encoder.context_input_ids =
            slice(expected.at("generated_from"), 0, begin, begin + docs).contiguous();
        request.encoder.context_attention_mask =
            slice(expected.at("generated_from_mask"), 0, begin, begin + docs).contiguous();
        request.encoder.doc_scores = slice(all.doc_scores, 0, question, question + 1).contiguous();
        apply_generation_tokens(*model, request);
        request.max_tokens = 8;  // max_length 9 counts the start token
        const std::vector<Hypothesis> found =
            generate_rag(*model, request, {.beams = beams, .n_best = 1, .max_tokens = 8});
        ASSERT_EQ(found.size(), 1u);
        const int64_t* row = ids.data<int64_t>() + question * ids.size(1);
        std::vector<int64_t> wanted(row + 1, row + ids.size(1));  // behind the start token
        while (wanted.back() == generation_tokens(*model).pad) {
          wanted.pop_back();
        }
        EXPECT_EQ(found[0].ids, wanted) << name << ", " << beams << " beams, question " << question;
      }
    }
  }
}

TEST(Rag, SavesAsItWasReadAndSaysWhatItNeeds) {
  const test::TemporaryFolder folder;
  const std::unique_ptr<Model> model = load_model(rag_folder("rag_token_bart"));
  save_model(*model, folder / "saved");
  const std::unique_ptr<Model> again = load_model(folder / "saved");
  const ModelInput input =
      rag_input(load_safetensors(rag_folder("rag_token_bart") / "inputs.safetensors"));
  test::expect_same_bits(again->forward(input).logits, model->forward(input).logits);
  ModelInput plain;
  plain.input_ids = Tensor::full({1, 4}, 5, DType::i64);
  try {
    model->encode(plain);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "encode: a RAG reads documents (context_input_ids, doc_scores), which `heed ask "
                 "--reader rag` finds");
  }
  try {
    load_model(fid_folder())->forward(input);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("takes no context_input_ids"), std::string::npos)
        << error.what();
  }
}

TEST(Rag, AnswersFromAnIndexOfDprVectors) {
  const test::TemporaryFolder folder;
  const Tokenizer tokenizer = Tokenizer::load(test::make_encoder(folder / "bert"));
  const std::string sizes =
      R"("hidden_size":32,"num_hidden_layers":1,"num_attention_heads":4,"intermediate_size":64,)"
      R"("max_position_embeddings":64,"type_vocab_size":2,"vocab_size":)" +
      std::to_string(tokenizer.vocab_size());
  save_model(
      *create_model(
          R"({"model_type":"dpr","architectures":["DPRContextEncoder"],"projection_dim":12,)" +
              sizes + "}",
          4),
      folder / "context");
  tokenizer.save(folder / "context");
  test::write(folder / "docs" / "a.jsonl",
              "{\"title\":\"one\",\"text\":\"the city is long\"}\n{\"text\":\"cats live "
              "here\"}\n{\"text\":\"dogs and people\"}\n");
  IndexOptions options;
  options.model = (folder / "context").native();
  build_index({(folder / "docs").native()}, folder / "x.heed-index", options);
  SearchIndex index = SearchIndex::open(folder / "x.heed-index");
  EXPECT_EQ(index.info().dimension, 12);
  try {
    index.search("cats", {.mode = SearchMode::dense});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("query_model"), std::string::npos) << error.what();
  }
  const std::unique_ptr<Model> rag = create_model(
      R"({"model_type":"rag","architectures":["RagTokenForGeneration"],"question_encoder":)"
      R"({"model_type":"dpr","projection_dim":12,)" +
          sizes + R"(},"generator":{"model_type":"bart","d_model":16,"encoder_layers":1,)" +
          R"("decoder_layers":1,"encoder_attention_heads":2,"decoder_attention_heads":2,)" +
          R"("encoder_ffn_dim":32,"decoder_ffn_dim":32,"max_position_embeddings":64,)" +
          R"("pad_token_id":0,"bos_token_id":1,"eos_token_id":2,"decoder_start_token_id":2,)" +
          R"("vocab_size":)" + std::to_string(tokenizer.vocab_size()) + "}}",
      5);
  AskOptions ask;
  ask.search.top_k = 2;
  ask.max_tokens = 5;
  const Answer answer = ask_rag(index, *rag, tokenizer, tokenizer, "where do cats live?", ask, 2);
  ASSERT_EQ(answer.sources.size(), 2u);
  EXPECT_LE(answer.answer_tokens, 5);
  EXPECT_NEAR(answer.sources[0].attention + answer.sources[1].attention, 1.0, 1e-6);
  EXPECT_GE(answer.sources[0].attention, answer.sources[1].attention);
  const Answer again = ask_rag(index, *rag, tokenizer, tokenizer, "where do cats live?", ask, 2);
  EXPECT_EQ(again.text, answer.text);
  // A document's score is the inner product of the encoders' vectors, not their cosine.
  const auto vector_of = [&](const Model& model, const std::string& text) {
    const std::vector<TokenId> ids = tokenizer.encode_ids(text);
    ModelInput input;
    input.input_ids = Tensor::from(ids, {1, static_cast<int64_t>(ids.size())});
    return model.forward(input).pooler_output.to_vector<float>();
  };
  const std::unique_ptr<Model> context = load_model(folder / "context");
  const std::vector<float> question = vector_of(*rag, "where do cats live?");
  const SearchResult& first = answer.sources[0].result;
  const std::vector<float> passage =
      vector_of(*context, first.title + (first.title.empty() ? "" : "\n") + first.text);
  double product = 0.0;
  for (size_t i = 0; i < passage.size(); ++i) {
    product += double{question[i]} * passage[i];
  }
  EXPECT_NEAR(first.score, product, 1e-4 * (1.0 + std::abs(product)));
}

}  // namespace
}  // namespace heed
