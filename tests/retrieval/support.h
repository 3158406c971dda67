#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "heed/models.h"
#include "heed/text.h"
#include "support/data.h"

namespace heed::test {

inline void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A small BERT with random weights and a tokenizer of its own: enough to index with.
inline std::filesystem::path make_encoder(const std::filesystem::path& folder, uint64_t seed = 1) {
  const std::vector<std::string_view> texts = {
      "the history of the city and its people is long and rich. cats and dogs live here.",
      "역사를 배우는 사람은 미래를 안다. 고양이와 개가 산다. 도시의 역사는 길다."};
  TokenizerTraining training;
  training.kind = TokenizerKind::wordpiece;
  training.vocab_size = 160;
  training.min_frequency = 1;
  const Tokenizer tokenizer = train_tokenizer(std::span<const std::string_view>(texts), training);
  const std::string config =
      R"({"model_type":"bert","architectures":["BertModel"],"hidden_size":32,"num_hidden_layers":2,)"
      R"("num_attention_heads":4,"intermediate_size":64,"max_position_embeddings":128,)"
      R"("type_vocab_size":2,"vocab_size":)" +
      std::to_string(tokenizer.vocab_size()) + "}";
  std::filesystem::create_directories(folder);
  save_model(*create_model(config, seed), folder);
  tokenizer.save(folder);
  return folder;
}

}  // namespace heed::test
