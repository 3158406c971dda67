#pragma once

#include <filesystem>
#include <string>

#include "base/file.h"
#include "heed/train.h"
#include "support/data.h"

namespace heed::test {

/// A small language-model run on a text of its own.
inline TrainOptions small_run(const TemporaryFolder& folder, const std::string& name) {
  const auto text = folder / "text.txt";
  if (!std::filesystem::exists(text)) {
    std::string content;
    for (int i = 0; i < 400; ++i) {
      content += "the " + std::to_string(i % 17) + " cats sat on the mat. ";
    }
    write_file_atomically(text, content);
  }
  TrainOptions options;
  options.task = "lm";
  options.data = text.string();
  options.tokenizer = "char";
  options.layers = 1;
  options.heads = 2;
  options.width = 16;
  options.context = 16;
  options.batch = 4;
  options.steps = 12;
  options.warmup = 2;
  options.checkpoint_every = 4;
  options.eval_every = 6;
  options.quiet = true;
  options.out = folder / name;
  return options;
}

}  // namespace heed::test
