#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

namespace heed {

using MessageCatalogue = std::unordered_map<std::string, std::string>;

/// The Korean partners of English texts, from src/base/messages/ko.po. Read on first use.
const MessageCatalogue& korean_catalogue();

/// Reads gettext's PO format: pairs of msgid and msgstr, each a string or several in a row.
/// Comments and an empty msgid (the header) are skipped. Throws std::invalid_argument, with the
/// line, for anything else.
MessageCatalogue parse_po(std::string_view text);

/// What translate_message() makes of a message in Korean, whatever the language of messages is.
std::string korean_message(const std::string& message);

}  // namespace heed
