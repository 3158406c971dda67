#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "heed/data.h"
#include "heed/runtime.h"
#include "heed/text.h"
#include "support/data.h"

namespace heed::test {

inline std::string put(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
  return path.string();
}

/// The message of the Error that fn throws; empty where it throws none.
template <class Fn>
std::string error_of(const Fn& fn, ErrorKind kind = ErrorKind::data) {
  try {
    fn();
  } catch (const Error& error) {
    return error.kind() == kind ? error.what() : "wrong kind: " + std::string(error.what());
  }
  return "";
}

/// Whole words, split at spaces; ids in the order given, [UNK] [PAD] [EOS] first.
inline Tokenizer word_tokenizer(const std::vector<std::string>& words, bool append_end = false) {
  std::string vocabulary = R"("[UNK]":0,"[PAD]":1,"[EOS]":2)";
  for (size_t i = 0; i < words.size(); ++i) {
    vocabulary += ",\"" + words[i] + "\":" + std::to_string(i + 3);
  }
  const std::string post = append_end ? R"({"type":"TemplateProcessing",
        "single":[{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[EOS]","type_id":0}}],
        "pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],
        "special_tokens":{"[EOS]":{"id":"[EOS]","ids":[2],"tokens":["[EOS]"]}}})"
                                      : "null";
  return Tokenizer::from_json(
      R"({"version":"1.0","added_tokens":[],"normalizer":null,
          "pre_tokenizer":{"type":"WhitespaceSplit"},"post_processor":)" +
      post + R"(,"decoder":null,"model":{"type":"WordLevel","unk_token":"[UNK]","vocab":{)" +
      vocabulary + "}}}");
}

inline std::vector<int64_t> values(const Tensor& tensor) { return tensor.to_vector<int64_t>(); }

}  // namespace heed::test
