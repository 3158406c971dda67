#include "base/language.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

#include "base/korean_particles.h"
#include "base/message_catalogue.h"
#include "heed/runtime.h"

namespace heed {
namespace {

std::atomic<bool> g_korean = false;

/// A text of the catalogue with arguments, cut at its placeholders.
struct Template {
  std::vector<std::string> pieces;  ///< one more than arguments; unescaped
  std::string_view korean;
  size_t fixed = 0;  ///< characters of the pieces
};

/// The fixed parts of a format text, "{{" unescaped; `on_argument` gets what stands in the braces.
template <class Fn>
std::vector<std::string> pieces_of(std::string_view format, Fn&& on_argument) {
  std::vector<std::string> pieces(1);
  for (size_t i = 0; i < format.size(); ++i) {
    const char c = format[i];
    if ((c == '{' || c == '}') && i + 1 < format.size() && format[i + 1] == c) {
      pieces.back() += c;
      ++i;
    } else if (c == '{') {
      const size_t end = format.find('}', i);
      on_argument(format.substr(i + 1, end - i - 1));
      pieces.emplace_back();
      i = end;
    } else {
      pieces.back() += c;
    }
  }
  return pieces;
}

/// Templates, those with the longest fixed parts first: "{} of {}" fits nearly everything.
const std::vector<Template>& templates() {
  static const std::vector<Template> all = [] {
    std::vector<Template> found;
    for (const auto& [english, korean] : korean_catalogue()) {
      Template one;
      one.pieces = pieces_of(english, [](std::string_view) {});
      one.korean = korean;
      for (const std::string& piece : one.pieces) {
        one.fixed += piece.size();
      }
      constexpr size_t kLeast = 4;  // fixed characters that tell a message from others
      if (one.fixed >= kLeast) {
        found.push_back(std::move(one));
      }
    }
    std::sort(found.begin(), found.end(), [](const Template& a, const Template& b) {
      return a.fixed != b.fixed ? a.fixed > b.fixed : a.pieces < b.pieces;
    });
    return found;
  }();
  return all;
}

/// The arguments that make `message` from the pieces; nothing where it does not fit.
std::optional<std::vector<std::string>> match(const std::vector<std::string>& pieces,
                                              std::string_view message) {
  if (!message.starts_with(pieces.front()) || !message.ends_with(pieces.back())) {
    return std::nullopt;
  }
  std::vector<std::string> arguments;
  size_t at = pieces.front().size();
  for (size_t i = 1; i < pieces.size(); ++i) {
    const bool last = i + 1 == pieces.size();
    const size_t next = last ? message.size() - pieces[i].size() : message.find(pieces[i], at);
    if (next == std::string_view::npos || next < at) {
      return std::nullopt;
    }
    arguments.emplace_back(message.substr(at, next - at));
    at = next + pieces[i].size();
  }
  return at == message.size() ? std::optional(arguments) : std::nullopt;
}

/// The Korean text with the arguments in its braces: "{}" in order, "{1}" by number.
std::string fill(std::string_view korean, const std::vector<std::string>& arguments) {
  std::vector<size_t> order;
  const std::vector<std::string> pieces = pieces_of(korean, [&](std::string_view inside) {
    const std::string_view number = inside.substr(0, inside.find(':'));
    order.push_back(number.empty() ? order.size() : static_cast<size_t>(number.front() - '0'));
  });
  std::string text = pieces.front();
  for (size_t i = 0; i < order.size(); ++i) {
    text += (order[i] < arguments.size() ? arguments[order[i]] : std::string()) + pieces[i + 1];
  }
  return with_particles(std::move(text));
}

/// A template that fits a part of a message, and the arguments that it was made with.
struct Fit {
  const Template* text = nullptr;
  std::vector<std::string> arguments;
  size_t begin = 0;  ///< of the part; it ends with the message
};

/// The template with the longest fixed parts that makes `message` from `begin` on.
std::optional<Fit> fit_from(std::string_view message, size_t begin) {
  for (const Template& each : templates()) {
    if (auto arguments = match(each.pieces, message.substr(begin))) {
      return Fit{&each, std::move(*arguments), begin};
    }
  }
  return std::nullopt;
}

/// A message around `inner`, with which it ends: "input 3: …", "cannot be opened: …".
std::optional<Fit> fit_around(std::string_view message, size_t begin, std::string_view inner) {
  for (const Template& each : templates()) {
    if (each.pieces.size() > 1 && !each.pieces.front().empty() && each.pieces.back().empty()) {
      auto arguments = match(each.pieces, message.substr(begin));
      if (arguments && arguments->back() == inner) {
        return Fit{&each, std::move(*arguments), begin};
      }
    }
  }
  return std::nullopt;
}

/// Arguments that are phrases of the catalogue themselves ("an encoder", "Permission denied"), in
/// Korean. What the message puts in quotes is somebody's text and stays as it is.
void translate_phrases(const Template& text, std::vector<std::string>& arguments) {
  constexpr size_t kLeast = 10;  // fixed characters that tell a phrase from somebody's text
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string& argument = arguments[i];
    const bool quoted = text.pieces[i].ends_with('\'') || text.pieces[i].ends_with('`');
    if (quoted || argument.find(' ') == std::string::npos) {
      continue;
    }
    if (const std::string_view korean = korean_partner(argument); !korean.empty()) {
      argument = korean;
    } else if (auto inner = fit_from(argument, 0); inner && inner->text->fixed >= kLeast) {
      translate_phrases(*inner->text, inner->arguments);
      argument = fill(inner->text->korean, inner->arguments);
    }
  }
}

}  // namespace

std::string korean_message(const std::string& message) {
  // "where: message", "file: op: message": the part that says most by its fixed words is the
  // message. "{} examples" would fit "data.tsv: has no examples" as well.
  std::optional<Fit> best;
  std::vector<size_t> begins;
  for (size_t begin = 0;;) {
    begins.push_back(begin);
    if (auto found = fit_from(message, begin);
        found && (!best || found->text->fixed > best->text->fixed)) {
      best = std::move(found);
    }
    const size_t colon = message.find(": ", begin);
    if (colon == std::string::npos) {
      break;
    }
    begin = colon + 2;
  }
  if (!best) {
    return message;
  }
  translate_phrases(*best->text, best->arguments);
  const std::string inner = fill(best->text->korean, best->arguments);
  const std::string_view rest = std::string_view(message).substr(best->begin);
  for (const size_t begin : begins) {
    if (begin < best->begin) {
      if (auto around = fit_around(message, begin, rest)) {
        around->arguments.back() = inner;
        return message.substr(0, begin) + fill(around->text->korean, around->arguments);
      }
    }
  }
  return message.substr(0, best->begin) + inner;
}

std::string translate_message(const std::string& message) {
  return g_korean ? korean_message(message) : message;
}

void set_message_language(std::string_view language) { g_korean = language == "ko"; }

std::string_view message_language() { return g_korean ? "ko" : "en"; }

std::string_view korean_partner(std::string_view english) {
  const auto found = korean_catalogue().find(std::string(english));
  return found == korean_catalogue().end() ? std::string_view() : found->second;
}

std::string_view in_language(std::string_view language, std::string_view english) {
  const std::string_view korean = language == "ko" ? korean_partner(english) : std::string_view();
  return korean.empty() ? english : korean;
}

std::string_view translate(std::string_view english) {
  return in_language(message_language(), english);
}

std::string format_message(std::string_view english, fmt::format_args args) {
  const std::string_view text = translate(english);
  std::string result = fmt::vformat(fmt::string_view(text.data(), text.size()), args);
  return g_korean ? with_particles(std::move(result)) : result;
}

void set_language(std::string_view code) { set_message_language(code); }
std::string translated(const std::string& message) { return translate_message(message); }

}  // namespace heed
