#include "io/json_limits.h"

#include "base/check.h"

namespace heed {

void check_json_limits(std::string_view text, std::string_view file, const JsonLimits& limits) {
  uint64_t depth = 0;
  uint64_t values = 1;
  size_t token_begin = 0;
  bool in_string = false;
  const auto end_token = [&](size_t end) {
    check_data(end - token_begin <= limits.token, file,
               "a string or number of {} bytes at byte {}; the limit is {}", end - token_begin,
               token_begin, limits.token);
    token_begin = end + 1;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
        end_token(i);
      }
      continue;
    }
    switch (c) {
      case '"':
        end_token(i);
        in_string = true;
        break;
      case '{':
      case '[':
        ++depth;
        check_data(depth <= limits.depth, file, "nested deeper than {} levels at byte {}",
                   limits.depth, i);
        end_token(i);
        break;
      case '}':
      case ']':
        depth -= depth > 0 ? 1 : 0;
        end_token(i);
        break;
      case ',':
        ++values;
        end_token(i);
        break;
      case ':':
      case ' ':
      case '\t':
      case '\n':
      case '\r':
        end_token(i);
        break;
      case '\0':  // the parser would treat it as the end
        fail(ErrorKind::data, file, "is not valid JSON: a zero byte at {}", i);
      default:
        break;
    }
    if (values > limits.values) {
      fail(ErrorKind::data, file, "has more than {} values", limits.values);
    }
  }
  if (token_begin < text.size()) {
    end_token(text.size());
  }
}

}  // namespace heed
