#pragma once

#include <map>
#include <string>
#include <vector>

#include "serve/field.h"
#include "serve/http_message.h"

namespace heed::serve {

/// Whether a request's body is multipart/form-data.
bool is_form(const HttpRequest& request);

/// A form as the JSON object that the fields describe, so that it is validated like any other body:
/// a number field's text becomes a number, "name[]" a list. Parts with a file name go to `files`.
/// Throws BadRequest where it is malformed.
std::string form_as_json(const HttpRequest& request, const std::vector<Field>& fields,
                         std::map<std::string, std::string>& files);

}  // namespace heed::serve
