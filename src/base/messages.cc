#include "base/messages.h"

namespace heed {

std::vector<std::span<const Message>> korean_messages() { return {messages_of_words()}; }

}  // namespace heed
