#include "io/json.h"

#include <cstdlib>

#include "fuzz/target.h"
#include "io/json_writer.h"

namespace {

/// Writes a value again with the streaming writer.
void rewrite(const heed::Json& value, heed::JsonWriter& writer) {
  if (value.is_object()) {
    writer.begin_object();
    value.for_each([&](const std::string& key, const heed::Json& member) {
      writer.key(key);
      rewrite(member, writer);
    });
    writer.end_object();
  } else if (value.is_array()) {
    writer.begin_array();
    for (const heed::Json& element : value.elements()) {
      rewrite(element, writer);
    }
    writer.end_array();
  } else if (value.is_string()) {
    writer.value(value.string());
  } else {
    writer.raw(value.dump());
  }
}

}  // namespace

/// Any bytes as JSON: parsed, refused, or written again and parsed to the same value.
HEED_FUZZ_TARGET(json) {
  using namespace heed;
  fuzz::expect_error_or_success([&] {
    const Json value = Json::parse(input, "input");
    JsonWriter writer(2);
    rewrite(value, writer);
    if (Json::parse(writer.text(), "again").dump() != value.dump()) {
      std::abort();
    }
    value.at("key").integer(0, 10);
  });
}
