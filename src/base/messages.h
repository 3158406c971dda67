#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace heed {

/// A text as it stands in the source, and what a Korean reader sees instead.
struct Message {
  std::string_view english;
  std::string_view korean;
};

/// The parts of the catalogue, one per messages_*.cc.
std::vector<std::span<const Message>> korean_messages();

std::span<const Message> messages_of_words();  ///< short texts: titles, names, units

}  // namespace heed
