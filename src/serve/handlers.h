#pragma once

#include "serve/routes.h"

// What the routes do, one file per group of routes.

namespace heed::serve {

// about_routes.cc
void answer_health(const CallPtr& call);
void answer_metrics(const CallPtr& call);
void answer_models(const CallPtr& call);
void answer_model(const CallPtr& call);
void answer_openapi(const CallPtr& call);
void answer_props(const CallPtr& call);
void answer_slots(const CallPtr& call);

// completions.cc, chat_completions.cc, llama_completion.cc, responses.cc
void answer_completions(const CallPtr& call);
void answer_chat_completions(const CallPtr& call);
void answer_llama_completion(const CallPtr& call);
void answer_responses(const CallPtr& call);
void answer_response_tokens(const CallPtr& call);

// embeddings.cc, classify.cc, translate.cc
void answer_embeddings(const CallPtr& call);
void answer_rerank(const CallPtr& call);
void answer_classify(const CallPtr& call);
void answer_fill_mask(const CallPtr& call);
void answer_translate(const CallPtr& call);

// caption.cc, transcription.cc
void answer_caption(const CallPtr& call);
void answer_transcription(const CallPtr& call);
void answer_audio_translation(const CallPtr& call);

// search.cc
void answer_search(const CallPtr& call);
void answer_ask(const CallPtr& call);

// tokenizer_routes.cc
void answer_tokenize(const CallPtr& call);
void answer_detokenize(const CallPtr& call);
void answer_apply_template(const CallPtr& call);
void answer_input_tokens(const CallPtr& call);

// explorer_routes.cc
void answer_page(const CallPtr& call);
void answer_explorer(const CallPtr& call);
void answer_explorer_generate(const CallPtr& call);
void answer_trace(const CallPtr& call);
void answer_tile(const CallPtr& call);

}  // namespace heed::serve
