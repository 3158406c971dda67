#pragma once

namespace heed {

/// The `type` that OpenAI's clients expect in an error with this HTTP status.
const char* http_error_type(int status);

}  // namespace heed
