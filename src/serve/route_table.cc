#include "serve/handlers.h"
#include "serve/route_fields.h"
#include "serve/routes.h"

namespace heed::serve {
namespace {

bool continues_text(const Abilities& can) { return can.generate && !can.translate; }
bool generates(const Abilities& can) { return can.generate; }
bool translates(const Abilities& can) { return can.translate; }
bool embeds(const Abilities& can) { return can.embed; }
bool ranks(const Abilities& can) { return can.embed || can.classify; }
bool classifies(const Abilities& can) { return can.classify || can.classify_image; }
bool captions(const Abilities& can) { return can.caption; }
bool transcribes(const Abilities& can) { return can.transcribe; }
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

/// Other paths of the same routes, as llama.cpp's server and its clients use them. Its /completions
/// is its own /completion, not OpenAI's.
void add_aliases(std::vector<Route>& routes) {
  const std::pair<const char*, const char*> aliases[] = {
      {"/models", "/v1/models"},       {"/chat/completions", "/v1/chat/completions"},
      {"/completions", "/completion"}, {"/embeddings", "/v1/embeddings"},
      {"/responses", "/v1/responses"}, {"/reranking", "/rerank"},
      {"/v1/reranking", "/rerank"},    {"/v1/health", "/health"},
  };
  for (const auto& [alias, path] : aliases) {
    for (size_t i = 0, count = routes.size(); i < count; ++i) {
      if (routes[i].path == path) {
        Route route = routes[i];
        route.path = alias;
        routes.push_back(std::move(route));
      }
    }
  }
}

std::vector<Route> make_routes() {
  const Needs language_model{continues_text, "a language model (a decoder)"};
  const Needs encoder{embeds, "an encoder without a head"};
  const Needs ranker{ranks, "an encoder or a classifier of pairs"};
  const Needs classifier{classifies, "a classifier of texts or images"};
  const Needs captioner{captions, "a model that describes images"};
  const Needs speech{transcribes, "a speech model"};
  const Needs translator{translates, "an encoder-decoder"};
  const Needs masked{fills_masks, "a masked language model"};
  const Needs generator{generates, "a language model or an encoder-decoder"};
  const Needs text_model{reads_text, "a model with a tokenizer"};
  Route transcription = post("/v1/audio/transcriptions", "speech", "Speech to text",
                             transcription_fields(), speech, answer_transcription);
  transcription.where = Route::Where::speech;
  transcription.form = true;
  Route audio_translation = transcription;
  audio_translation.path = "/v1/audio/translations";
  audio_translation.summary = "Speech in any language to English text";
  audio_translation.handler = answer_audio_translation;
  Route search = post("/v1/search", "retrieval", "Find passages of an index", search_fields(),
                      {nullptr, ""}, answer_search);
  search.where = Route::Where::retrieval;
  Route ask = post("/v1/ask", "retrieval", "Answer a question from an index", ask_fields(),
                   generator, answer_ask);
  ask.where = Route::Where::retrieval;
  Route page = get("/", "explorer", "The explorer page", answer_page, Route::Access::open);
  Route explorer =
      get("/heed/v1/*", "explorer",
          "What the explorer page asks; docs/formats/explorer-protocol.md", answer_explorer);
  explorer.where = Route::Where::explorer;
  Route explorer_post =
      post("/heed/v1/*", "explorer", explorer.summary, {}, {nullptr, ""}, answer_explorer);
  explorer_post.where = Route::Where::explorer;
  Route explorer_delete = explorer;
  explorer_delete.method = "DELETE";
  Route explorer_generate =
      post("/heed/v1/generate", "explorer", "Text with the attention of every token, as events", {},
           {nullptr, ""}, answer_explorer_generate);
  explorer_generate.where = Route::Where::explorer;
  Route trace = post("/heed/v1/trace", "explorer",
                     "The attention of a text request, finished or not, as a trace of the explorer",
                     trace_fields(), {nullptr, ""}, answer_trace);
  trace.where = Route::Where::explorer;
  Route tile = post("/heed/v1/tile", "explorer", "Attention weights of a text request, 256 x 256",
                    tile_fields(), {nullptr, ""}, answer_tile);
  tile.where = Route::Where::explorer;
  std::vector<Route> all{
      page,
      explorer,
      explorer_post,
      explorer_delete,
      explorer_generate,
      trace,
      tile,
      get("/health", "operation", "Whether the server is ready: 200, or 503 while it loads models",
          answer_health, Route::Access::open),
      get("/metrics", "operation", "Counters and histograms in Prometheus' format", answer_metrics),
      get("/openapi.json", "operation", "This description", answer_openapi),
      get("/props", "operation", "A model's limits and template, as llama.cpp's server shows them",
          answer_props),
      get("/slots", "operation", "Which sequences decode", answer_slots),
      post("/chat/completions/input_tokens", "tokens", "How many tokens a conversation has",
           template_fields(), language_model, answer_input_tokens),
      get("/v1/models", "models", "The models that can be asked for", answer_models),
      get("/v1/models/*", "models", "One model", answer_model),
      post("/v1/chat/completions", "text", "Answer a conversation", chat_fields(), language_model,
           answer_chat_completions),
      post("/v1/completions", "text", "Continue a text", completion_fields(), language_model,
           answer_completions),
      post("/v1/responses", "text", "Answer a conversation", responses_fields(), language_model,
           answer_responses),
      post("/v1/responses/input_tokens", "tokens", "How many tokens a conversation has",
           responses_fields(), language_model, answer_response_tokens),
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
      post("/v1/classify", "tasks", "Label texts or images", classify_fields(), classifier,
           answer_classify),
      post("/v1/fill-mask", "tasks", "Fill masked words", fill_mask_fields(), masked,
           answer_fill_mask),
      post("/v1/caption", "tasks", "Describe images", caption_fields(), captioner, answer_caption),
      transcription,
      audio_translation,
      search,
      ask,
      post("/tokenize", "tokens", "Text to token ids", tokenize_fields(), text_model,
           answer_tokenize),
      post("/detokenize", "tokens", "Token ids to text", detokenize_fields(), text_model,
           answer_detokenize),
      post("/apply-template", "tokens", "A conversation as the text that the model reads",
           template_fields(), text_model, answer_apply_template),
  };
  add_aliases(all);
  return all;
}

}  // namespace

const std::vector<Route>& routes() {
  static const std::vector<Route> kRoutes = make_routes();
  return kRoutes;
}

}  // namespace heed::serve
