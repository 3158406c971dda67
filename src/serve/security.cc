#include "serve/security.h"

#include <arpa/inet.h>

#include <algorithm>

namespace heed::serve {
namespace {

bool is_ip_address(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  return inet_pton(AF_INET, host.c_str(), &v4) == 1 || inet_pton(AF_INET6, host.c_str(), &v6) == 1;
}

bool is_any_address(const std::string& address) { return address == "0.0.0.0" || address == "::"; }

bool contains(const std::vector<std::string>& list, std::string_view text) {
  return std::any_of(list.begin(), list.end(),
                     [&](const std::string& each) { return equal_ignoring_case(each, text); });
}

}  // namespace

std::string host_name(std::string_view authority) {
  const bool bracketed = authority.starts_with('[');
  const size_t end =
      bracketed ? authority.find(']') : std::min(authority.find(':'), authority.size());
  if (end == std::string_view::npos) {
    return {};
  }
  const std::string_view host = authority.substr(bracketed ? 1 : 0, end - (bracketed ? 1 : 0));
  const std::string_view port = authority.substr(end + (bracketed ? 1 : 0));
  const bool plain =
      port.empty() || (port.front() == ':' && port.find_first_not_of("0123456789", 1) == port.npos);
  return plain ? std::string(host) : std::string();
}

bool is_loopback(const std::string& address) {
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, address.c_str(), &v4) == 1) {
    return (ntohl(v4.s_addr) >> 24) == 127;
  }
  return inet_pton(AF_INET6, address.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool AccessRules::host_allowed(const HttpRequest& request) const {
  const std::string* field = request.find("Host");
  if (field == nullptr) {
    return true;  // HTTP/1.0; a browser always sends one
  }
  const std::string host = host_name(*field);
  if (contains(allowed_hosts, "*")) {
    return true;
  }
  if (host.empty()) {
    return false;
  }
  if (equal_ignoring_case(host, "localhost") || host == bound_address ||
      contains(allowed_hosts, host)) {
    return true;
  }
  // An address cannot be rebound: only names can.
  return is_ip_address(host) && (is_loopback(host) || is_any_address(bound_address));
}

bool AccessRules::origin_allowed(const HttpRequest& request) const {
  const std::string* origin = request.find("Origin");
  if (origin == nullptr || contains(allowed_origins, *origin)) {
    return true;
  }
  const std::string* host = request.find("Host");
  return host != nullptr && (equal_ignoring_case(*origin, "http://" + *host) ||
                             equal_ignoring_case(*origin, "https://" + *host));
}

std::string AccessRules::cross_origin(const HttpRequest& request) const {
  const std::string* origin = request.find("Origin");
  return origin != nullptr && contains(allowed_origins, *origin) ? *origin : std::string();
}

bool equal_in_constant_time(std::string_view expected, std::string_view given) {
  unsigned difference = expected.size() == given.size() ? 0U : 1U;
  for (size_t i = 0; i < expected.size(); ++i) {
    const char other = i < given.size() ? given[i] : '\0';
    difference |= static_cast<unsigned char>(expected[i]) ^ static_cast<unsigned char>(other);
  }
  return difference == 0;
}

bool AccessRules::key_accepted(const HttpRequest& request) const {
  if (api_keys.empty()) {
    return true;
  }
  std::string_view given;
  if (const std::string* field = request.find("Authorization")) {
    constexpr std::string_view kBearer = "Bearer ";
    given = *field;
    if (!equal_ignoring_case(given.substr(0, kBearer.size()), kBearer)) {
      return false;
    }
    given.remove_prefix(kBearer.size());
  } else if (const std::string* key = request.find("X-Api-Key")) {
    given = *key;
  }
  bool accepted = false;
  for (const std::string& key : api_keys) {
    accepted = equal_in_constant_time(key, given) || accepted;  // all of them, whichever fits
  }
  return accepted;
}

}  // namespace heed::serve
