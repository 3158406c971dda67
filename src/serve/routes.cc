#include "serve/routes.h"

#include <cstdlib>

#include "base/check.h"

namespace heed::serve {

std::vector<const Route*> routes_at(const std::string& path) {
  std::vector<const Route*> found;
  for (const Route& route : routes()) {
    const bool open_end = route.path.back() == '*';
    const std::string_view prefix(route.path.data(), route.path.size() - (open_end ? 1 : 0));
    if (open_end ? path.size() > prefix.size() && path.starts_with(prefix) : path == prefix) {
      found.push_back(&route);
    }
  }
  return found;
}

const Field& Call::field(const std::string& name) const {
  for (const Field& each : route.fields) {
    if (each.name == name) {
      return each;
    }
  }
  heed::fail(ErrorKind::runtime, route.path, "has no field {} in the table of routes", name);
}

bool Call::has(const std::string& name) const { return body && body->has(name); }

bool Call::flag(const std::string& name) const {
  const Field& described = field(name);
  return has(name) ? body->boolean(name) : described.fallback == "true";
}

int64_t Call::integer(const std::string& name) const {
  const Field& described = field(name);
  return has(name) ? body->at(name).integer()
                   : std::strtoll(described.fallback.c_str(), nullptr, 10);
}

double Call::number(const std::string& name) const {
  const Field& described = field(name);
  return has(name) ? body->at(name).number() : std::strtod(described.fallback.c_str(), nullptr);
}

std::string Call::text(const std::string& name) const {
  const std::string& fallback = field(name).fallback;
  if (has(name)) {
    return body->string(name);
  }
  return fallback.size() >= 2 ? fallback.substr(1, fallback.size() - 2) : "";  // without its quotes
}

std::vector<std::string> Call::texts(const std::string& name) const {
  field(name);
  if (!has(name)) {
    return {};
  }
  const Json value = body->at(name);
  return value.is_string() ? std::vector{value.string()} : value.strings();
}

void Call::reply(std::string json) const { exchange->respond({200, std::move(json)}); }

void Call::fail(int status, const std::string& message, const std::string& param) const {
  exchange->annotate_error(message);
  exchange->respond(error_response(status, message, param));
}

}  // namespace heed::serve
