#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace heed::text {

/// Turns token strings back into text: the result is the tokens put one after the other.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

/// The byte that a token such as <0xE1> stands for; -1 where it is none.
int byte_token_value(std::string_view token);

std::unique_ptr<Decoder> make_decoder(const Json& json);

}  // namespace heed::text
