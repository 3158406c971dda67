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

// completions.cc, chat_completions.cc, llama_completion.cc, responses.cc
void answer_completions(const CallPtr& call);

}  // namespace heed::serve
