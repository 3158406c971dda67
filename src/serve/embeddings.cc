#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/base64.h"
#include "serve/encoder_run.h"
#include "serve/handlers.h"

namespace heed::serve {
namespace {

/// Little-endian f32, as OpenAI's clients decode it.
std::string base64_of(const std::vector<float>& vector) {
  std::string bytes(vector.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), vector.data(), bytes.size());
  return encode_base64(bytes);
}

std::vector<std::string> read_input(const Json& input) {
  constexpr size_t kMost = 2048;
  if (input.is_string()) {
    return {input.string()};
  }
  if (!input.is_array() || input.size() == 0) {
    throw BadRequest("'input' must be a string or a list of strings", "input");
  }
  if (input.size() > kMost) {
    throw BadRequest(
        fmt::format("'input' has {} items; at most {} are allowed", input.size(), kMost), "input");
  }
  std::vector<std::string> texts;
  for (const Json& item : input.elements()) {
    if (item.is_number() || item.is_array()) {
      throw BadRequest(
          "'input' holds token ids of another tokenizer; send text (LangChain: "
          "OpenAIEmbeddings(check_embedding_ctx_length=False))",
          "input");
    }
    if (!item.is_string()) {
      throw BadRequest("every item of 'input' must be a string", "input");
    }
    texts.push_back(item.string());
  }
  return texts;
}

/// The first `dimensions` numbers, scaled to length 1 again (Matryoshka embeddings).
void shorten(std::vector<float>& vector, int64_t dimensions) {
  if (dimensions <= 0 || dimensions >= static_cast<int64_t>(vector.size())) {
    return;
  }
  vector.resize(static_cast<size_t>(dimensions));
  double norm = 0.0;
  for (const float x : vector) {
    norm += static_cast<double>(x) * x;
  }
  for (float& x : vector) {
    x = static_cast<float>(norm > 0.0 ? x / std::sqrt(norm) : 0.0);
  }
}

using Vectors = std::shared_ptr<std::vector<std::vector<float>>>;

std::string embeddings_answer(const Call& call, const std::vector<std::vector<float>>& vectors,
                              int64_t tokens) {
  const bool base64 = call.text("encoding_format") == "base64";
  JsonWriter json;
  json.begin_object().field("object", "list").key("data").begin_array();
  for (size_t i = 0; i < vectors.size(); ++i) {
    json.begin_object().field("object", "embedding").field("index", i).key("embedding");
    if (base64) {
      json.value(base64_of(vectors[i]));
    } else {
      json.begin_array();
      for (const float x : vectors[i]) {
        json.raw(fmt::format("{}", x));  // the shortest text that reads back as the same float
      }
      json.end_array();
    }
    json.end_object();
  }
  json.end_array().field("model", call.model_name).key("usage").begin_object();
  json.field("prompt_tokens", tokens).field("total_tokens", tokens).end_object();
  return json.end_object().take();
}

struct Ranked {
  size_t index;
  double score;
};

std::string rerank_answer(const Call& call, const std::vector<std::string>& documents,
                          const std::vector<double>& scores, int64_t tokens) {
  std::vector<Ranked> order;
  for (size_t i = 0; i < scores.size(); ++i) {
    order.push_back({i, scores[i]});
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Ranked& a, const Ranked& b) { return a.score > b.score; });
  if (const int64_t most = call.integer("top_n"); most > 0) {
    order.resize(std::min(order.size(), static_cast<size_t>(most)));
  }
  const bool with_texts = call.flag("return_documents") || call.flag("return_text");
  JsonWriter json;
  if (call.has("texts")) {  // text-embeddings-inference's form
    json.begin_array();
    for (const Ranked& item : order) {
      json.begin_object().field("index", item.index).field("score", item.score);
      if (with_texts) {
        json.field("text", documents[item.index]);
      }
      json.end_object();
    }
    return json.end_array().take();
  }
  json.begin_object().field("object", "list").field("model", call.model_name);
  json.key("results").begin_array();
  for (const Ranked& item : order) {
    json.begin_object().field("index", item.index).field("relevance_score", item.score);
    if (with_texts) {
      json.key("document").begin_object().field("text", documents[item.index]).end_object();
    }
    json.end_object();
  }
  json.end_array().key("usage").begin_object().field("prompt_tokens", tokens);
  json.field("total_tokens", tokens).end_object();
  return json.end_object().take();
}

/// A cross-encoder reads query and document together; its score is the probability of its last
/// label (of the only one: its sigmoid).
void rerank_by_pairs(const CallPtr& call, const std::string& query,
                     const std::vector<std::string>& documents) {
  std::vector<EncodedText> pairs;
  pairs.reserve(documents.size());
  for (const std::string& document : documents) {
    pairs.push_back(encode_text_pair(*call->model, query, document, "documents", true));
  }
  auto scores = std::make_shared<std::vector<double>>(documents.size());
  run_encoder(
      call, std::move(pairs),
      [scores](size_t i, const ModelOutput& output, int64_t row, int64_t) {
        const int64_t labels = output.logits.size(1);
        const float* logits = output.logits.data<float>() + row * labels;
        double others = 0.0;
        for (int64_t label = 0; label + 1 < labels; ++label) {
          others += std::exp(static_cast<double>(logits[label]) - logits[labels - 1]);
        }
        (*scores)[i] = labels == 1 ? 1.0 / (1.0 + std::exp(-static_cast<double>(logits[0])))
                                   : 1.0 / (1.0 + others);
      },
      [call, scores, documents](int64_t tokens) {
        call->reply(rerank_answer(*call, documents, *scores, tokens));
      });
}

/// An embedding model compares the query's vector with each document's.
void rerank_by_vectors(const CallPtr& call, const std::string& query,
                       const std::vector<std::string>& documents) {
  std::vector<EncodedText> texts{encode_text(*call->model, query, "query", true)};
  for (const std::string& document : documents) {
    texts.push_back(encode_text(*call->model, document, "documents", true));
  }
  const Vectors vectors = std::make_shared<std::vector<std::vector<float>>>(texts.size());
  run_encoder(
      call, std::move(texts),
      [call, vectors](size_t i, const ModelOutput& output, int64_t row, int64_t length) {
        (*vectors)[i] = pooled_embedding(*call->model, output, row, length);
      },
      [call, vectors, documents](int64_t tokens) {
        std::vector<double> scores;
        const std::vector<float>& asked = vectors->front();
        for (size_t i = 1; i < vectors->size(); ++i) {
          scores.push_back(
              std::inner_product(asked.begin(), asked.end(), (*vectors)[i].begin(), 0.0));
        }
        call->reply(rerank_answer(*call, documents, scores, tokens));
      });
}

}  // namespace

void answer_embeddings(const CallPtr& call) {
  const std::vector<std::string> input = read_input(call->body->at("input"));
  std::vector<EncodedText> texts;
  texts.reserve(input.size());
  for (const std::string& text : input) {
    texts.push_back(encode_text(*call->model, text, "input", call->flag("truncate")));
  }
  const Vectors vectors = std::make_shared<std::vector<std::vector<float>>>(texts.size());
  const int64_t dimensions = call->integer("dimensions");
  run_encoder(
      call, std::move(texts),
      [call, vectors, dimensions](size_t i, const ModelOutput& output, int64_t row,
                                  int64_t length) {
        (*vectors)[i] = pooled_embedding(*call->model, output, row, length);
        shorten((*vectors)[i], dimensions);
      },
      [call, vectors](int64_t tokens) { call->reply(embeddings_answer(*call, *vectors, tokens)); });
}

void answer_rerank(const CallPtr& call) {
  const std::vector<std::string> documents =
      call->texts(call->has("texts") ? "texts" : "documents");
  if (documents.empty()) {
    throw BadRequest("'documents' is missing or empty", "documents", "missing_required_parameter");
  }
  const std::string query = call->text("query");
  call->model->abilities.classify ? rerank_by_pairs(call, query, documents)
                                  : rerank_by_vectors(call, query, documents);
}

}  // namespace heed::serve
