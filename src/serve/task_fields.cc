#include "serve/route_fields.h"

namespace heed::serve {
namespace {

Field truncate_field() {
  return boolean_field("truncate", "false", "Cut texts that are longer than the model's context");
}

Field input_texts_field(const std::string& description) {
  Field field = strings_field("input", kMostTexts, description);
  field.item_high = kMostText;
  return field.must();
}

Field documents_field(const std::string& name, const std::string& description) {
  Field field = strings_field(name, kMostTexts, description);
  field.item_high = kMostText;
  return field;
}

Field image_field() {
  constexpr double kMostImages = 64;
  Field field = strings_field("image", kMostImages,
                              "A PNG, JPEG or PNM file as base64 or as a data: URL, or a list");
  field.item_high = kMostFile;
  return field;
}

/// What a search and everything built on one takes.
Field index_field() {
  return string_field("index", 256, "Name of an index; may be left out where there is only one");
}
Field mode_field() {
  return choice_field("mode", {"dense", "lexical", "hybrid"}, "\"hybrid\"",
                      "By meaning, by words, or both");
}

/// How a text is made from an encoder's input.
std::vector<Field> decoding_fields(const std::string& what) {
  return {
      integer_field("num_beams", 1, 16, "1", "Beams; 1 is greedy"),
      number_field("length_penalty", -10, 10, "1", "Of a beam search; above 0: longer is better"),
      choice_field("early_stopping", {"true", "false", "never"}, "\"false\"",
                   "When a beam search with enough finished texts ends"),
      integer_field("max_tokens", 1, 4096, "128", "Most tokens of a " + what),
      boolean_field("stream", "false", "Send the " + what + " piece by piece"),
      user_field(),
  };
}

std::vector<Field> operator+(std::vector<Field> fields, const std::vector<Field>& more) {
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

}  // namespace

std::vector<Field> embedding_fields() {
  return {
      model_field(),
      any_field("input",
                {R"({"type":"string"})",
                 R"({"type":"array","minItems":1,"maxItems":2048,"items":{"type":"string"}})"},
                "A text or a list of texts")
          .must(),
      choice_field("encoding_format", {"float", "base64"}, "\"float\"", "How vectors are sent"),
      integer_field("dimensions", 0, 1 << 16, "0",
                    "Only the first numbers of each vector; 0: all of them"),
      truncate_field(),
      user_field(),
  };
}

std::vector<Field> rerank_fields() {
  return {
      model_field(),
      string_field("query", kMostText, "What the documents are compared with").must(),
      documents_field("documents", "Texts to put in order"),
      documents_field("texts", "The same, as text-embeddings-inference calls them"),
      integer_field("top_n", 0, kMostTexts, "0", "Only so many results; 0: all"),
      boolean_field("return_documents", "false", "Repeat the documents in the results"),
      boolean_field("return_text", "false", "The same, where `texts` are given"),
      user_field(),
  };
}

std::vector<Field> translate_fields() {
  return std::vector<Field>{model_field(),
                            input_texts_field("A text or a list of texts to translate")} +
         decoding_fields("translation");
}

std::vector<Field> caption_fields() {
  return std::vector<Field>{model_field(), image_field().must()} + decoding_fields("caption");
}

std::vector<Field> transcription_fields() {
  return {
      model_field(),
      string_field("file", kMostFile,
                   "The recording: a file of a form, or base64 in JSON; WAV, FLAC, OGG, MP3")
          .must(),
      string_field("language", 16, "Such as en or ko; empty: detected"),
      string_field("prompt", kMostText, "Taken and not used"),
      choice_field("response_format", {"json", "text", "srt", "vtt", "verbose_json"}, "\"json\"",
                   "How the answer looks"),
      strings_field("timestamp_granularities", 2, "word, segment: times in verbose_json"),
      number_field("temperature", 0, 2, "0", "Taken and not used: decoding is greedy"),
      user_field(),
  };
}

std::vector<Field> search_fields() {
  return {
      index_field(), string_field("query", kMostText, "What to look for").must(),
      mode_field(),  integer_field("top_k", 1, 1000, "10", "Most results"),
      user_field(),
  };
}

std::vector<Field> ask_fields() {
  return {
      model_field(),
      index_field(),
      string_field("question", kMostText, "What to answer from the index").must(),
      mode_field(),
      integer_field("top_k", 1, 100, "5", "Most sources"),
      integer_field("max_tokens", 1, 4096, "256", "Most tokens of the answer"),
      number_field("temperature", 0, 2, "0", "Randomness; 0 always takes the likeliest token"),
      integer_field("seed", -1, kMostSeed, "0", "The same seed gives the same answer"),
      choice_field("reader", {"prompt", "fid"}, "\"prompt\"",
                   "All sources in one prompt, or each read by itself (a FiD reader)"),
      boolean_field("attention", "false", "Measure how much attention each source got"),
      boolean_field("stream", "false", "Send the answer piece by piece, as server-sent events"),
      user_field(),
  };
}

std::vector<Field> trace_fields() {
  return {
      string_field("request", 256, "The id of a text request, finished or not").must(),
      integer_field("choice", 0, 255, "0", "Which of its texts"),
  };
}

std::vector<Field> tile_fields() {
  return trace_fields() +
         std::vector<Field>{
             choice_field("kind", {"self", "encoder", "decoder", "cross"}, "\"self\"",
                          "Which attention"),
             integer_field("layer", 0, 1 << 20, "0", "Layer, from 0"),
             integer_field("head", -1, 1 << 20, "-1", "Head, from 0; -1: the mean of all"),
             choice_field("what",
                          {"weights", "scores", "value_weighted", "contribution", "rollout"},
                          "\"weights\"", "What the tile holds"),
             integer_field("level", 0, 24, "0", "A cell stands for 2^level x 2^level weights"),
             integer_field("row", 0, 1 << 20, "0", "Row of tiles of 256 x 256 cells"),
             integer_field("column", 0, 1 << 20, "0", "Column of tiles"),
         };
}

std::vector<Field> classify_fields() {
  return {
      model_field(),
      documents_field("input", "A text or a list of texts, for a classifier of texts"),
      image_field(),
      integer_field("top_k", 0, 1 << 16, "0", "Only the likeliest labels; 0: all"),
      truncate_field(),
      user_field(),
  };
}

std::vector<Field> fill_mask_fields() {
  return {
      model_field(),
      input_texts_field("A text or a list of texts with the model's mask token"),
      integer_field("top_k", 1, 1000, "5", "Candidates for each mask"),
      user_field(),
  };
}

std::vector<Field> tokenize_fields() {
  return {
      model_field(),
      string_field("content", kMostText, "The text").must(),
      boolean_field("add_special", "false", "With the tokens the model expects around a text"),
      boolean_field("parse_special", "true", "Special tokens in the text are what they stand for"),
      boolean_field("with_pieces", "false", "Show every token's text"),
  };
}

std::vector<Field> detokenize_fields() {
  return {model_field(), list_field("tokens", 1 << 20, "Token ids").must()};
}

}  // namespace heed::serve
