#include <fmt/format.h>

#include <utility>

#include "heed/retrieval.h"
#include "heed/tensor.h"
#include "serve/chat_prompt.h"
#include "serve/handlers.h"
#include "serve/service.h"
#include "serve/text_run.h"

namespace heed::serve {
namespace {

void write_result(JsonWriter& json, const SearchResult& each) {
  json.field("rank", each.rank).field("score", each.score).field("source", each.source);
  json.field("text", each.text);
  if (!each.title.empty()) {
    json.field("title", each.title);
  }
  if (!each.location.empty()) {
    json.field("location", each.location);
  }
  if (each.cosine) {
    json.field("cosine", *each.cosine);
  }
  if (each.bm25) {
    json.field("bm25", *each.bm25);
  }
}

SearchOptions search_options(const Call& call) {
  return {.mode = parse_search_mode(call.text("mode")),
          .top_k = call.integer("top_k"),
          .candidates = 0};
}

std::string answer_json(const Call& call, const std::string& id, const Answer& answer) {
  JsonWriter json;
  json.begin_object().field("id", id).field("object", "answer").field("model", call.model_name);
  json.field("answer", answer.text).key("sources").begin_array();
  for (const AnswerSource& source : answer.sources) {
    json.begin_object().field("number", source.number);
    write_result(json, source.result);
    if (call.flag("attention")) {
      json.field("attention", source.attention);
    }
    json.end_object();
  }
  json.end_array();
  json.field("finish_reason", answer.finish == FinishReason::length ? "length" : "stop");
  const Usage usage{answer.prompt_tokens, answer.answer_tokens};
  annotate_usage(call, usage);
  write_usage(json, usage);
  return json.end_object().take();
}

/// By the reader that the call names.
Answer read_and_answer(const Call& call, SearchIndex& index, const AskOptions& options) {
  const LoadedModel& reader = *call.model;
  const std::string question = call.text("question");
  if (call.text("reader") == "fid") {
    return ask_fid(index, *reader.model, reader.tokenizer, question, options);
  }
  return ask(index, *reader.model, reader.tokenizer, question, options);
}

/// An answer on its way to a client that may want it in pieces. A stream begins with its first
/// piece, so that what goes wrong before has the same status as without a stream.
class AskReply {
 public:
  explicit AskReply(const CallPtr& call) : call_(call), wanted_(call->flag("stream")) {}

  void piece(const std::string& json) {
    if (wanted_) {
      begin();
      call_->exchange->write(event(json));
    }
  }
  void finish(const std::string& json) {
    if (!wanted_) {
      call_->reply(json);
      return;
    }
    piece(json);
    call_->exchange->write("data: [DONE]\n\n");
    call_->exchange->end_stream();
  }
  void fail(HttpResponse response) {
    if (!begun_) {
      call_->exchange->respond(std::move(response));
      return;
    }
    call_->exchange->write(event(response.body));
    call_->exchange->end_stream();
  }

 private:
  void begin() {
    if (std::exchange(begun_, true)) {
      return;
    }
    HttpResponse head;
    head.content_type = "text/event-stream; charset=utf-8";
    head.fields.emplace_back("Cache-Control", "no-store");
    call_->exchange->begin_stream(std::move(head));
  }

  CallPtr call_;
  bool wanted_, begun_ = false;
};

AskOptions ask_options(const CallPtr& call) {
  AskOptions options;
  options.search = search_options(*call);
  options.max_tokens = call->integer("max_tokens");
  options.sampling.temperature = call->number("temperature");
  options.sampling.seed = static_cast<uint64_t>(std::max<int64_t>(call->integer("seed"), 0));
  options.attention = call->flag("attention");
  if (call->model->chat_template) {
    options.render = [call](const std::string& message) {
      JsonWriter messages;
      messages.begin_array().begin_object().field("role", "user").field("content", message);
      return render_chat(*call->model, messages.end_object().end_array().take(), {}, {});
    };
  }
  return options;
}

}  // namespace

void answer_search(const CallPtr& call) {
  const NoGrad no_grad;
  const std::string query = call->text("query");
  const SearchOptions options = search_options(*call);
  SearchIndexes::Held held = call->service.indexes().get(call->text("index"));
  JsonWriter json;
  json.begin_object().field("object", "list").key("results").begin_array();
  for (const SearchResult& each : held.index->search(query, options)) {
    json.begin_object();
    write_result(json, each);
    json.end_object();
  }
  call->reply(json.end_array().end_object().take());
}

void answer_ask(const CallPtr& call) {
  const NoGrad no_grad;
  const std::string id = new_id("ask-");
  AskReply reply(call);
  AskOptions options = ask_options(call);
  options.on_text = [&](std::string_view text) {
    JsonWriter json;
    json.begin_object().field("id", id).field("text", text);
    reply.piece(json.end_object().take());
  };
  answer_errors(
      call,
      [&] {
        SearchIndexes::Held held = call->service.indexes().get(call->text("index"));
        reply.finish(answer_json(*call, id, read_and_answer(*call, *held.index, options)));
      },
      [&](HttpResponse response) { reply.fail(std::move(response)); });
}

}  // namespace heed::serve
