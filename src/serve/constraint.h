#pragma once

#include <memory>

#include "heed/generate.h"
#include "serve/routes.h"

namespace heed::serve {

/// What the answer must look like, from the fields `response_format`, `json_schema` and `grammar`;
/// null where none is given. Throws BadRequest that names the field.
std::shared_ptr<const TokenConstraint> read_constraint(const Call& call);
/// The same from the form that stands at `pointer` in the body, such as "/text/format".
std::shared_ptr<const TokenConstraint> format_constraint(const Call& call, const Json& format,
                                                         const std::string& pointer);
/// What a JSON schema allows. Throws BadRequest that names `param`.
std::shared_ptr<const TokenConstraint> schema_constraint(const Call& call,
                                                         const std::string& schema,
                                                         const std::string& param);

}  // namespace heed::serve
