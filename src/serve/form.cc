#include "serve/form.h"

#include <fmt/format.h>

#include <algorithm>

namespace heed::serve {
namespace {

constexpr size_t kMostParts = 64;
constexpr size_t kMostHeader = 8192;
constexpr size_t kMostBoundary = 70;  // RFC 2046

/// The value of a parameter of a header field: boundary=abc, name="file".
std::string parameter(std::string_view field, std::string_view name) {
  size_t at = field.find(';');
  while (at != std::string_view::npos) {
    const size_t begin = field.find_first_not_of("; \t", at);
    if (begin == std::string_view::npos) {
      break;
    }
    const size_t equals = field.find('=', begin);
    if (equals == std::string_view::npos) {
      break;
    }
    const bool quoted = equals + 1 < field.size() && field[equals + 1] == '"';
    const size_t from = equals + (quoted ? 2 : 1);
    const size_t end = field.find(quoted ? '"' : ';', from);
    if (equal_ignoring_case(field.substr(begin, equals - begin), name)) {
      return std::string(field.substr(from, end == std::string_view::npos ? end : end - from));
    }
    at = end == std::string_view::npos ? end : field.find(';', end);
  }
  return {};
}

struct Part {
  std::string name, file;
  bool is_file = false;
  std::string_view value;
};

[[noreturn]] void refuse(const std::string& what) {
  throw BadRequest(fmt::format("the form is malformed: {}", what));
}

Part read_part(std::string_view bytes) {
  const size_t end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos || end > kMostHeader) {
    refuse("a part has no header");
  }
  Part part;
  std::string_view header = bytes.substr(0, end);
  while (!header.empty()) {
    const size_t line_end = std::min(header.find("\r\n"), header.size());
    const std::string_view line = header.substr(0, line_end);
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos &&
        equal_ignoring_case(line.substr(0, colon), "Content-Disposition")) {
      part.name = parameter(line, "name");
      part.is_file = line.find("filename") != std::string_view::npos;
      part.file = parameter(line, "filename");
    }
    header.remove_prefix(std::min(line_end + 2, header.size()));
  }
  if (part.name.empty()) {
    refuse("a part has no name");
  }
  part.value = bytes.substr(end + 4);
  return part;
}

std::vector<Part> read_parts(const HttpRequest& request) {
  const std::string boundary = parameter(*request.find("Content-Type"), "boundary");
  if (boundary.empty() || boundary.size() > kMostBoundary) {
    refuse("its Content-Type names no boundary");
  }
  const std::string_view body = request.body;
  const std::string first = "--" + boundary, next = "\r\n--" + boundary;
  if (!body.starts_with(first)) {
    refuse("it does not begin with its boundary");
  }
  std::vector<Part> parts;
  size_t at = first.size();
  while (body.substr(at, 2) != "--") {
    if (body.substr(at, 2) != "\r\n" || parts.size() >= kMostParts) {
      refuse(parts.size() >= kMostParts ? "it has too many parts" : "a part ends wrongly");
    }
    const size_t end = body.find(next, at);
    if (end == std::string_view::npos) {
      refuse("a part does not end");
    }
    parts.push_back(read_part(body.substr(at + 2, end - at - 2)));
    at = end + next.size();
  }
  return parts;
}

/// Text as a JSON value of the field's type where it is one, else as a string, which is refused
/// with the field's name.
void write_value(JsonWriter& json, const Field* field, const std::string& text) {
  const bool number =
      field != nullptr && (field->type == FieldType::integer || field->type == FieldType::number);
  const bool digits = !text.empty() && text.size() <= 32 &&
                      text.find_first_not_of("+-.0123456789eE") == std::string::npos;
  if (number && digits) {
    try {
      if (Json::parse(text, "form").is_number()) {
        json.raw(text);
        return;
      }
    } catch (const std::exception&) {  // no number: a string
    }
  }
  if (field != nullptr && field->type == FieldType::boolean &&
      (text == "true" || text == "false")) {
    json.value(text == "true");
  } else {
    json.value(text);
  }
}

}  // namespace

bool is_form(const HttpRequest& request) {
  constexpr std::string_view kForm = "multipart/form-data";
  const std::string* type = request.find("Content-Type");
  return type != nullptr &&
         equal_ignoring_case(std::string_view(*type).substr(0, type->find(';')), kForm);
}

std::string form_as_json(const HttpRequest& request, const std::vector<Field>& fields,
                         std::map<std::string, std::string>& files) {
  std::map<std::string, std::vector<std::string>> values;
  for (const Part& part : read_parts(request)) {
    const bool list = part.name.ends_with("[]");
    const std::string name = list ? part.name.substr(0, part.name.size() - 2) : part.name;
    if (part.is_file) {
      files[name] = std::string(part.value);
      values[name] = {part.file};
    } else {
      values[name].emplace_back(part.value);
    }
  }
  JsonWriter json;
  json.begin_object();
  for (const auto& [name, texts] : values) {
    const auto found =
        std::find_if(fields.begin(), fields.end(),
                     [&, &name = name](const Field& field) { return field.name == name; });
    const Field* field = found == fields.end() ? nullptr : &*found;
    json.key(name);
    if (field != nullptr && field->type == FieldType::strings) {
      json.value(texts);
    } else {
      write_value(json, field, texts.back());
    }
  }
  return json.end_object().take();
}

}  // namespace heed::serve
