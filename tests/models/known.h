#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "heed/models.h"
#include "io/json.h"

/// Skips the test where the folder's model_type is not in the registry yet.
#define HEED_NEEDS_TYPE_OF(folder)                                                              \
  {                                                                                             \
    const auto types = heed::known_model_types();                                               \
    const std::string type = heed::Json::read((folder) / "config.json").string("model_type");   \
    if (std::find(types.begin(), types.end(), type) == types.end() ||                           \
        std::find(types.begin(), types.end(), "vit") == types.end() && type.starts_with("vis")) \
      GTEST_SKIP() << type << " is not there yet";                                              \
  }
