#pragma once

#include <memory>

#include "heed/grammar.h"
#include "serve/routes.h"

namespace heed::serve {

/// What the answer must look like, from the fields `response_format`, `json_schema` and `grammar`;
/// null where none is given. Throws BadRequest that names the field.
std::shared_ptr<const TokenConstraint> read_constraint(const Call& call);

}  // namespace heed::serve
