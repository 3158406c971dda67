#pragma once

#include <string>

#include "serve/routes.h"

namespace heed::serve {

/// `instructions` and `input` of a call of /v1/responses as the messages that a chat template
/// takes, calls of functions and their results included. Throws BadRequest.
std::string input_messages(const Call& call);

}  // namespace heed::serve
