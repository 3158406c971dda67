#include "serve/http_message.h"

#include <algorithm>

#include "base/http_error_type.h"
#include "io/json_writer.h"

namespace heed::serve {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char small = lower(c);
  return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) {
    return false;
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) {
      return false;
    }
  }
  return true;
}

const std::string* HttpRequest::find(std::string_view name) const {
  for (const auto& [key, value] : fields) {
    if (equal_ignoring_case(key, name)) {
      return &value;
    }
  }
  return nullptr;
}

size_t HttpRequest::count(std::string_view name) const {
  size_t found = 0;
  for (const auto& field : fields) {
    found += equal_ignoring_case(field.first, name) ? 1 : 0;
  }
  return found;
}

HttpResponse error_response(int status, std::string_view message, std::string_view param,
                            std::string_view code, std::string_view type,
                            const std::vector<std::pair<std::string, int64_t>>& numbers) {
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.field("message", message).field("type", type.empty() ? http_error_type(status) : type);
  json.key("param");
  param.empty() ? json.null() : json.value(param);
  json.key("code");
  code.empty() ? json.null() : json.value(code);
  for (const auto& [name, value] : numbers) {
    json.field(name, value);
  }
  HttpResponse response;
  response.status = status;
  response.body = json.end_object().end_object().take();
  if (status == 429 || status == 503) {
    response.fields.emplace_back("Retry-After", "1");
  }
  if (status == 401) {
    response.fields.emplace_back("WWW-Authenticate", "Bearer");
  }
  return response;
}

std::optional<AbsoluteTarget> absolute_target(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (equal_ignoring_case(target.substr(0, scheme.size()), scheme)) {
      target.remove_prefix(scheme.size());
      const size_t end = std::min(target.find_first_of("/?"), target.size());
      const std::string_view rest = target.substr(end);
      return AbsoluteTarget{std::string(target.substr(0, end)),
                            (rest.starts_with('/') ? "" : "/") + std::string(rest)};
    }
  }
  return std::nullopt;
}

const char* reason_phrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 409:
      return "Conflict";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Payload Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

bool percent_decode(std::string_view text, std::string& out) {
  out.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 1 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return false;
      }
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (c == '\0') {
      return false;
    }
    out += c;
  }
  return true;
}

}  // namespace heed::serve
