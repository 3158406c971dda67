#include "fuzz/target.h"
#include "heed/generate.h"

/// The first byte chooses: a GBNF grammar or a JSON schema; what follows is the grammar, which then
/// reads itself as a text.
HEED_FUZZ_TARGET(grammar) {
  using namespace heed;
  fuzz::expect_error_or_success([&] {
    if (input.empty()) {
      return;
    }
    const std::string_view text = input.substr(1);
    const Grammar grammar = static_cast<unsigned char>(input[0]) % 2 == 0
                                ? Grammar::from_gbnf(text)
                                : Grammar::from_json_schema(text);
    if (grammar.matches(text.substr(0, 256)) && !grammar.matches_prefix(text.substr(0, 256))) {
      std::abort();
    }
  });
}
