#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "serve/http_message.h"

namespace heed::serve {

/// Who may talk to the server. A browser's page from elsewhere is kept out twice: its Origin is
/// foreign, and after DNS rebinding its Host is.
struct AccessRules {
  std::vector<std::string> api_keys;  ///< any of them; empty: none is needed
  std::vector<std::string>
      allowed_hosts;  ///< beyond loopback names and the bound address; "*": any
  std::vector<std::string> allowed_origins;  ///< beyond the server's own
  std::string bound_address;

  bool host_allowed(const HttpRequest& request) const;
  /// True where the request has no Origin, the server's own, or a listed one.
  bool origin_allowed(const HttpRequest& request) const;
  /// The Origin to name in Access-Control-Allow-Origin: a listed one; else empty.
  std::string cross_origin(const HttpRequest& request) const;
  bool key_accepted(const HttpRequest& request) const;
};

/// Compares without telling by its time where two strings differ.
bool equal_in_constant_time(std::string_view expected, std::string_view given);

/// Whether an address reaches this machine only.
bool is_loopback(const std::string& address);

/// The host of "host:port", "[::1]:port" or "host".
std::string host_name(std::string_view authority);

}  // namespace heed::serve
