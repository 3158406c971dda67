#include "base/messages.h"

namespace heed {
namespace {

constexpr Message kMessages[] = {
    {"Query", "쿼리"},
    {"Key", "키"},
    {"Weight", "가중치"},
};

}  // namespace

std::span<const Message> messages_of_words() { return kMessages; }

}  // namespace heed
