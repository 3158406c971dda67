#pragma once

#include "heed/options.h"

namespace heed::app {

// Options that commands share which open a model. `value` is a std::string or a
// std::filesystem::path.

/// --tokenizer FILE
template <class T>
void add_tokenizer(OptionTable& table, T& value) {
  table.add("--tokenizer", &value, "Tokenizer file, if the model has none").file();
}

/// --adapter FOLDER
template <class T>
void add_adapter(OptionTable& table, T& value) {
  table.add("--adapter", &value, "Folder of a LoRA adapter in PEFT's format, added to the model")
      .file();
}

}  // namespace heed::app
