#pragma once

#include <vector>

#include "serve/field.h"

// The fields of every route: what /openapi.json shows and requests are validated by.

namespace heed::serve {

inline constexpr double kMostText = 4 << 20;    ///< bytes of one text
inline constexpr double kMostFile = 12 << 20;   ///< bytes of an image or a recording as base64
inline constexpr double kMostTokens = 1 << 20;  ///< tokens to generate
inline constexpr double kMostSeed = 9007199254740991;  ///< 2^53 - 1: exact in every client's JSON
inline constexpr double kMostTexts = 2048;             ///< of one request

Field model_field();
Field user_field();
Field messages_field();
Field tools_field();
Field template_variables_field();

// text_fields.cc
std::vector<Field> completion_fields();
std::vector<Field> chat_fields();
std::vector<Field> llama_fields();
std::vector<Field> responses_fields();
std::vector<Field> template_fields();

// task_fields.cc
std::vector<Field> embedding_fields();
std::vector<Field> rerank_fields();
std::vector<Field> translate_fields();
std::vector<Field> caption_fields();
std::vector<Field> classify_fields();
std::vector<Field> fill_mask_fields();
std::vector<Field> transcription_fields();
std::vector<Field> search_fields();
std::vector<Field> ask_fields();
std::vector<Field> tokenize_fields();
std::vector<Field> detokenize_fields();
std::vector<Field> trace_fields();
std::vector<Field> tile_fields();

}  // namespace heed::serve
