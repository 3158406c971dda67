#include "serve/handlers.h"
#include "serve/routes.h"

namespace heed::serve {
namespace {

constexpr double kText = 4 << 20;                 // bytes of one text
constexpr double kMostTokens = 1 << 20;           // tokens to generate
constexpr double kMostSeed = 9007199254740991.0;  // 2^53 - 1: exact in every client's JSON
constexpr double kMostTexts = 2048;               // of one request

Field model_field() {
  return string_field("model", 256,
                      "Name of a model of /v1/models; may be left out where only one fits");
}

Field user_field() { return string_field("user", 256, "An end user, for fairness between them"); }

Field truncate_field() {
  return boolean_field("truncate", "false", "Cut texts that are longer than the model's context");
}

Field input_texts_field(const std::string& description) {
  Field field = strings_field("input", kMostTexts, description);
  field.item_high = kText;
  return field.must();
}

std::vector<Field> operator+(std::vector<Field> fields, const std::vector<Field>& more) {
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

/// What all routes that generate text take.
std::vector<Field> sampling_fields() {
  return {
      number_field("temperature", 0, 2, "1", "Randomness; 0 always takes the likeliest token"),
      number_field("top_p", 0, 1, "1", "Only the likeliest tokens with this probability together"),
      integer_field("top_k", 0, 1 << 20, "0", "Only the k likeliest tokens; 0: all"),
      number_field("min_p", 0, 0.999, "0",
                   "Only tokens with at least this fraction of the likeliest one's probability"),
      number_field("repetition_penalty", 0.01, 100, "1", "Above 1: fewer repetitions"),
      number_field("frequency_penalty", -2, 2, "0",
                   "Taken off a token's logit for every time it has been generated"),
      number_field("presence_penalty", -2, 2, "0",
                   "Taken off a token's logit once it has been generated"),
      number_map_field("logit_bias", -100, 100, 300, "Token ids and what is added to their logits"),
      strings_field("stop", 16, "Texts that end the answer; they are not part of it"),
      integer_field("seed", -1, kMostSeed, "-1",
                    "The same seed gives the same answer; -1: a new one each time"),
      boolean_field("stream", "false", "Send the answer piece by piece, as server-sent events"),
      user_field(),
  };
}

Field stream_options_field() {
  return object_field("stream_options",
                      {boolean_field("include_usage", "false", "A last chunk with the usage")},
                      "Options of a stream");
}

Field prompt_field() {
  return any_field("prompt", "Text, texts, token ids or lists of token ids to go on from").must();
}

Field messages_field() {
  return objects_field(
             "messages", kMostTexts,
             {choice_field("role", {"system", "developer", "user", "assistant", "tool", "function"},
                           "", "Who speaks")
                  .must(),
              any_field("content", "A text, or a list of parts of type text"),
              string_field("name", 256, "Name of the speaker"),
              list_field("tool_calls", 128, "Calls that the assistant has made"),
              string_field("tool_call_id", 256, "The call that a tool answers")},
             "The conversation so far")
      .must();
}

Field tools_field() {
  return objects_field("tools", 128,
                       {string_field("type", 64, "function").must(),
                        object_field("function", {}, "Name, description and parameters")},
                       "Functions that the model may call; its template shows them to it");
}

Field template_variables_field() {
  return object_field("chat_template_kwargs", {}, "Further variables of the model's template");
}

std::vector<Field> completion_fields() {
  return std::vector<Field>{
             model_field(),
             prompt_field(),
             integer_field("max_tokens", 0, kMostTokens, "16", "Most tokens to generate"),
             integer_field("n", 1, 128, "1", "Answers for each prompt"),
             integer_field("best_of", 0, 128, "0", "Not more than n"),
             boolean_field("echo", "false", "Begin the answer with the prompt"),
             string_field("suffix", kText, "Not supported; must be empty"),
             integer_field("logprobs", 0, 20, "",
                           "Show log-probabilities, of so many alternatives, too"),
             stream_options_field(),
         } +
         sampling_fields();
}

std::vector<Field> chat_fields() {
  return std::vector<Field>{
             model_field(),
             messages_field(),
             integer_field("max_tokens", 0, kMostTokens, "-1",
                           "Most tokens to generate; as many as the context holds by default"),
             integer_field("max_completion_tokens", 0, kMostTokens, "-1", "The same as max_tokens"),
             integer_field("n", 1, 128, "1", "Answers"),
             boolean_field("logprobs", "false", "Show the log-probability of every token"),
             integer_field("top_logprobs", 0, 20, "0", "And of so many alternatives"),
             object_field("response_format",
                          {choice_field("type", {"text", "json_object", "json_schema"}, "",
                                        "What the answer must be")
                               .must(),
                           object_field("json_schema", {}, "The schema, under `schema`")},
                          "Form of the answer"),
             tools_field(),
             any_field("tool_choice", "none leaves the tools out; anything else shows them"),
             boolean_field("parallel_tool_calls", "true", "Taken and not used"),
             template_variables_field(),
             stream_options_field(),
         } +
         sampling_fields();
}

std::vector<Field> llama_fields() {
  return std::vector<Field>{
             model_field(),
             prompt_field(),
             integer_field("n_predict", -1, kMostTokens, "-1",
                           "Most tokens to generate; -1: as many as the context holds"),
             boolean_field("ignore_eos", "false", "Go on behind the model's end token"),
             boolean_field("cache_prompt", "true", "Taken and not used: prompts are always shared"),
         } +
         sampling_fields();
}

std::vector<Field> responses_fields() {
  return std::vector<Field>{
             model_field(),
             any_field("input", "A text or a list of messages").must(),
             string_field("instructions", kText, "What the model is told before the conversation"),
             integer_field("max_output_tokens", 0, kMostTokens, "-1", "Most tokens to generate"),
             boolean_field("store", "false", "Taken and not used: nothing is stored"),
         } +
         sampling_fields();
}

std::vector<Field> embedding_fields() {
  return {
      model_field(),
      any_field("input", "A text or a list of texts").must(),
      choice_field("encoding_format", {"float", "base64"}, "\"float\"", "How vectors are sent"),
      integer_field("dimensions", 0, 1 << 16, "0",
                    "Only the first numbers of each vector; 0: all of them"),
      truncate_field(),
      user_field(),
  };
}

std::vector<Field> rerank_fields() {
  Field documents = strings_field("documents", kMostTexts, "Texts to put in order");
  documents.item_high = kText;
  return {
      model_field(),
      string_field("query", kText, "What the documents are compared with").must(),
      documents.must(),
      integer_field("top_n", 0, kMostTexts, "0", "Only so many results; 0: all"),
      boolean_field("return_documents", "false", "Repeat the documents in the results"),
      user_field(),
  };
}

std::vector<Field> translate_fields() {
  return {
      model_field(),
      input_texts_field("A text or a list of texts to translate"),
      integer_field("num_beams", 1, 16, "1", "Beams; 1 is greedy"),
      number_field("length_penalty", -10, 10, "1", "Of a beam search; above 0: longer is better"),
      integer_field("max_tokens", 1, 4096, "128", "Most tokens of a translation"),
      boolean_field("stream", "false", "Send the translation piece by piece"),
      user_field(),
  };
}

std::vector<Field> classify_fields() {
  return {
      model_field(),
      input_texts_field("A text or a list of texts"),
      integer_field("top_k", 0, 1 << 16, "0", "Only the likeliest labels; 0: all"),
      truncate_field(),
      user_field(),
  };
}

std::vector<Field> fill_mask_fields() {
  return {
      model_field(),
      input_texts_field("A text or a list of texts with the model's mask token"),
      integer_field("top_k", 1, 1000, "5", "Candidates for each mask"),
      user_field(),
  };
}

std::vector<Field> tokenize_fields() {
  return {
      model_field(),
      string_field("content", kText, "The text").must(),
      boolean_field("add_special", "false", "With the tokens the model expects around a text"),
      boolean_field("with_pieces", "false", "Show every token's text"),
  };
}

std::vector<Field> detokenize_fields() {
  return {model_field(), list_field("tokens", 1 << 20, "Token ids").must()};
}

std::vector<Field> template_fields() {
  return {
      model_field(),
      messages_field(),
      tools_field(),
      template_variables_field(),
      boolean_field("add_generation_prompt", "true", "End with the beginning of an answer"),
  };
}

bool continues_text(const Abilities& can) { return can.generate && !can.translate; }
bool translates(const Abilities& can) { return can.translate; }
bool embeds(const Abilities& can) { return can.embed; }
bool ranks(const Abilities& can) { return can.embed || can.classify; }
bool classifies(const Abilities& can) { return can.classify; }
bool fills_masks(const Abilities& can) { return can.fill_mask; }
bool reads_text(const Abilities& can) { return !can.classify_image; }

Route get(const std::string& path, const std::string& tag, const std::string& summary,
          void (*handler)(const CallPtr&), Route::Access access = Route::Access::key) {
  Route route;
  route.method = "GET";
  route.path = path;
  route.tag = tag;
  route.summary = summary;
  route.access = access;
  route.where = Route::Where::io;
  route.handler = handler;
  return route;
}

struct Needs {
  bool (*suits)(const Abilities&);
  std::string what;
};

Route post(const std::string& path, const std::string& tag, const std::string& summary,
           std::vector<Field> fields, const Needs& needs, void (*handler)(const CallPtr&)) {
  Route route;
  route.method = "POST";
  route.path = path;
  route.tag = tag;
  route.summary = summary;
  route.fields = std::move(fields);
  route.suits = needs.suits;
  route.needs = needs.what;
  route.handler = handler;
  for (const Field& field : route.fields) {
    route.may_stream = route.may_stream || field.name == "stream";
  }
  return route;
}

std::vector<Route> make_routes() {
  const Needs language_model{continues_text, "a language model (a decoder)"};
  const Needs encoder{embeds, "an encoder without a head"};
  const Needs ranker{ranks, "an encoder or a classifier of pairs"};
  const Needs classifier{classifies, "a text classifier"};
  const Needs translator{translates, "an encoder-decoder"};
  const Needs masked{fills_masks, "a masked language model"};
  const Needs text_model{reads_text, "a model with a tokenizer"};
  Route transcription = post("/v1/audio/transcriptions", "speech", "Speech to text", {},
                             {nullptr, ""}, answer_transcription);
  transcription.where = Route::Where::io;
  transcription.any_body = true;
  Route page = get("/", "explorer", "The explorer page", answer_page, Route::Access::open);
  Route explorer =
      get("/heed/v1/*", "explorer",
          "What the explorer page asks; docs/formats/explorer-protocol.md", answer_explorer);
  explorer.where = Route::Where::worker;
  Route explorer_post =
      post("/heed/v1/*", "explorer", explorer.summary, {}, {nullptr, ""}, answer_explorer);
  Route explorer_delete = explorer;
  explorer_delete.method = "DELETE";
  Route explorer_generate =
      post("/heed/v1/generate", "explorer", "Text with the attention of every token, as events", {},
           {nullptr, ""}, answer_explorer_generate);
  return {
      page,
      explorer,
      explorer_post,
      explorer_delete,
      explorer_generate,
      get("/health", "operation", "Whether the server is ready: 200, or 503 while it loads models",
          answer_health, Route::Access::open),
      get("/metrics", "operation", "Counters and histograms in Prometheus' format", answer_metrics),
      get("/openapi.json", "operation", "This description", answer_openapi),
      get("/v1/models", "models", "The models that can be asked for", answer_models),
      get("/v1/models/*", "models", "One model", answer_model),
      post("/v1/chat/completions", "text", "Answer a conversation", chat_fields(), language_model,
           answer_chat_completions),
      post("/v1/completions", "text", "Continue a text", completion_fields(), language_model,
           answer_completions),
      post("/v1/responses", "text", "Answer a conversation", responses_fields(), language_model,
           answer_responses),
      post("/completion", "text", "Continue a text, as llama.cpp's server does", llama_fields(),
           language_model, answer_llama_completion),
      post("/v1/embeddings", "vectors", "Vectors of texts", embedding_fields(), encoder,
           answer_embeddings),
      post("/rerank", "vectors", "Put documents in order of relevance", rerank_fields(), ranker,
           answer_rerank),
      post("/v1/rerank", "vectors", "Put documents in order of relevance", rerank_fields(), ranker,
           answer_rerank),
      post("/v1/translate", "tasks", "Translate texts", translate_fields(), translator,
           answer_translate),
      post("/v1/classify", "tasks", "Label texts", classify_fields(), classifier, answer_classify),
      post("/v1/fill-mask", "tasks", "Fill masked words", fill_mask_fields(), masked,
           answer_fill_mask),
      transcription,
      post("/tokenize", "tokens", "Text to token ids", tokenize_fields(), text_model,
           answer_tokenize),
      post("/detokenize", "tokens", "Token ids to text", detokenize_fields(), text_model,
           answer_detokenize),
      post("/apply-template", "tokens", "A conversation as the text that the model reads",
           template_fields(), text_model, answer_apply_template),
  };
}

}  // namespace

const std::vector<Route>& routes() {
  static const std::vector<Route> kRoutes = make_routes();
  return kRoutes;
}

}  // namespace heed::serve
