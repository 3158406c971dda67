#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "io/json.h"

namespace heed {

struct Json::Document {
  std::string file;
  nlohmann::json root;
};

}  // namespace heed
