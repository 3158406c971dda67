#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// What the HTTP layer and the routes exchange. No Boost here: only http_*.cc see it.

namespace heed::serve {

using HeaderFields = std::vector<std::pair<std::string, std::string>>;

/// A request that has been read completely and whose framing is valid.
struct HttpRequest {
  std::string method;
  std::string target;  ///< as it was sent, without scheme and authority
  std::string path;    ///< of the target, percent-decoded, without the query
  std::string query;   ///< behind '?', as it was sent
  HeaderFields fields;
  std::string body;
  std::string remote;  ///< address of the client, without its port
  std::string id;      ///< of this request: the access log and `x-request-id` carry it

  /// Value of a header field, by its name in any case; null where it is absent.
  const std::string* find(std::string_view name) const;
  /// How many fields have this name.
  size_t count(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  HeaderFields fields = {};
};

/// One request and the way to answer it. Every member function may be called from any thread. An
/// exchange that is dropped without an answer is answered with 500.
class Exchange {
 public:
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const HttpRequest& request() const { return request_; }
  HttpRequest& request() { return request_; }

  /// Sends a whole response. Only the first call of respond() or begin_stream() counts.
  virtual void respond(HttpResponse response) = 0;
  /// Sends a status line and headers; the body follows in pieces.
  virtual void begin_stream(HttpResponse head) = 0;
  /// Queues a piece of the body. False where the client has gone or reads too slowly: the request
  /// is cancelled then.
  virtual bool write(std::string_view piece) = 0;
  virtual void end_stream() = 0;

  /// Whether the client has gone, was too slow, or the request's time is up.
  virtual bool cancelled() const = 0;
  /// Called once, from the I/O thread, when the exchange is cancelled; at once where it already is.
  virtual void on_cancel(std::function<void()> callback) = 0;

  /// What the access log says about the request beyond its status.
  struct Note {
    std::string route, model, error;
    int64_t prompt_tokens = 0;
    int64_t completion_tokens = 0;
  };
  virtual void annotate(const std::function<void(Note&)>& change) = 0;
  void annotate_error(const std::string& message) {
    annotate([&](Note& note) { note.error = message; });
  }

 protected:
  Exchange() = default;
  HttpRequest request_;
};
using ExchangePtr = std::shared_ptr<Exchange>;

/// An error in OpenAI's form: {"error": {"message", "type", "param", "code"}}. `param` and `code`
/// are null where they are empty.
HttpResponse error_response(int status, std::string_view message, std::string_view param = {},
                            std::string_view code = {}, std::string_view type = {},
                            const std::vector<std::pair<std::string, int64_t>>& numbers = {});

/// "Not Found"; "Unknown" for a status that heed does not use.
const char* reason_phrase(int status);

/// Decodes %XX; nothing where an escape is malformed or the result holds a NUL byte.
bool percent_decode(std::string_view text, std::string& out);

/// The parts of "http://localhost:8080/v1/models?x" and of the same with https.
struct AbsoluteTarget {
  std::string authority;  ///< "localhost:8080"
  std::string target;     ///< "/v1/models?x"; "/" where there is no path
};
/// Nothing for a target in another form, such as "/v1/models".
std::optional<AbsoluteTarget> absolute_target(std::string_view target);

bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace heed::serve
