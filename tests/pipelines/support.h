#pragma once

#include <string>
#include <vector>

#include "heed/models.h"
#include "heed/pipelines.h"
#include "heed/text.h"
#include "support/data.h"

namespace heed::test {

inline const std::vector<std::string>& sample_texts() {
  static const std::vector<std::string> texts{"the cat sat on the mat",
                                              "a dog ran in the park",
                                              "the film was really good",
                                              "it was a very bad film",
                                              "birds sing",
                                              "the cat and the dog sat in the park and sang"};
  return texts;
}

/// A tokenizer trained on the sample texts: WordPiece for encoders, byte-level BPE for decoders.
inline Tokenizer sample_tokenizer(TokenizerKind kind) {
  std::vector<std::string_view> texts(sample_texts().begin(), sample_texts().end());
  TokenizerTraining options;
  options.kind = kind;
  options.vocab_size = kind == TokenizerKind::wordpiece ? 120 : 300;
  options.min_frequency = 1;
  return train_tokenizer(std::span<const std::string_view>(texts), options);
}

/// A small fresh model with its tokenizer, as a folder. `head` is the class ("BertForMaskedLM").
inline std::filesystem::path make_encoder(const std::filesystem::path& folder,
                                          const std::string& head, const std::string& more = "") {
  const Tokenizer tokenizer = sample_tokenizer(TokenizerKind::wordpiece);
  const std::string config =
      R"({"model_type": "bert", "architectures": [")" + head +
      R"("], "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
         "intermediate_size": 32, "max_position_embeddings": 24, "type_vocab_size": 2,
         "initializer_range": 0.5, "vocab_size": )" +
      std::to_string(tokenizer.vocab_size()) + more + "}";
  save_model(*create_model(config, 7), folder);
  tokenizer.save(folder);
  return folder;
}

inline std::filesystem::path make_decoder(const std::filesystem::path& folder,
                                          const std::string& head = "GPT2LMHeadModel") {
  const Tokenizer tokenizer = sample_tokenizer(TokenizerKind::byte_bpe);
  const std::string config =
      R"({"model_type": "gpt2", "architectures": [")" + head +
      R"("], "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "initializer_range": 0.5, "eos_token_id": 0,
         "vocab_size": )" +
      std::to_string(tokenizer.vocab_size()) + "}";
  save_model(*create_model(config, 3), folder);
  tokenizer.save(folder);
  return folder;
}

inline std::filesystem::path make_encoder_decoder(const std::filesystem::path& folder) {
  const Tokenizer tokenizer = sample_tokenizer(TokenizerKind::wordpiece);
  const std::string config =
      R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 16,
         "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0,
         "pad_token_id": 0, "eos_token_id": 3, "vocab_size": )" +
      std::to_string(tokenizer.vocab_size()) + "}";
  save_model(*create_model(config, 5), folder);
  tokenizer.save(folder);
  return folder;
}

/// A small CLIP, or SigLIP where `family` says so.
inline std::filesystem::path make_image_text(const std::filesystem::path& folder,
                                             const std::string& family = "clip") {
  const Tokenizer tokenizer = sample_tokenizer(TokenizerKind::wordpiece);
  const std::string tower = R"("hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
      "intermediate_size": 24, "initializer_range": 0.4)";
  const std::string config =
      R"({"model_type": ")" + family + R"(", "projection_dim": 8, "text_config": {)" + tower +
      R"(, "max_position_embeddings": 16, "eos_token_id": )" +
      std::to_string(tokenizer.special().sep.value_or(0)) + R"(, "vocab_size": )" +
      std::to_string(tokenizer.vocab_size()) + R"(}, "vision_config": {)" + tower +
      R"(, "image_size": 8, "patch_size": 4}})";
  save_model(*create_model(config, 11), folder);
  tokenizer.save(folder);
  return folder;
}

inline std::string message_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace heed::test
