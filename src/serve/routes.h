#pragma once

#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "serve/field.h"
#include "serve/http_message.h"
#include "serve/loaded_model.h"

namespace heed::serve {

class Service;
struct Call;
using CallPtr = std::shared_ptr<Call>;

/// One route of the server. Requests are routed, authorised and validated from this table,
/// /openapi.json is made from it, and the tests walk it.
struct Route {
  enum class Access { open, key };  ///< key: the API key, where the server has one
  enum class Where {
    io,         ///< answered at once, on the I/O thread: never waits, never computes
    worker,     ///< parsed and prepared on a worker thread, after the queue's limit was checked
    explorer,   ///< parsed there, answered on the explorer's thread: passes may take seconds
    retrieval,  ///< parsed there, answered on the thread of the search indexes
    speech,     ///< parsed there, answered on the thread of recordings, which take minutes
  };
  std::string method;
  std::string path;  ///< a trailing "*" takes the rest of the path
  std::string summary;
  std::string tag;
  Access access = Access::key;
  Where where = Where::worker;
  std::vector<Field> fields = {};  ///< of the JSON body; none for GET
  /// Whether a model can serve this route; empty where it needs no model.
  bool (*suits)(const Abilities&) = nullptr;
  std::string needs = {};  ///< for the error where it cannot: "a language model"
  bool may_stream = false;
  bool form = false;  ///< takes multipart/form-data with the fields, and files by name
  void (*handler)(const CallPtr&) = nullptr;
};

const std::vector<Route>& routes();

/// The routes with this path, of any method.
std::vector<const Route*> routes_at(const std::string& path);

/// /openapi.json.
std::string openapi_document();

/// A request on its way through a route, after its fields have been validated.
struct Call {
  Service& service;
  const Route& route;
  ExchangePtr exchange;
  std::optional<Json> body = {};
  std::map<std::string, std::string> files = {};  ///< of a form, by the field's name
  LoadedModelPtr model = nullptr;
  std::string model_name = {};  ///< as the client wrote it
  std::string client = {};
  std::stop_token stop = {};  ///< asked to stop where the client goes or its time is up
  std::shared_ptr<void> in_flight = nullptr;  ///< counts the request until the call has gone

  /// A field's value, or its default from the table.
  bool has(const std::string& name) const;
  bool flag(const std::string& name) const;
  int64_t integer(const std::string& name) const;
  double number(const std::string& name) const;
  std::string text(const std::string& name) const;
  /// A string or a list of strings, as a list.
  std::vector<std::string> texts(const std::string& name) const;

  void reply(std::string json) const;
  void fail(int status, const std::string& message, const std::string& param = {}) const;

 private:
  const Field& field(const std::string& name) const;
};

}  // namespace heed::serve
