#include "heed/open.h"

#include <cstdio>
#include <iostream>

#include "base/check.h"

namespace heed::app {

Opened open_model(const std::string& path, const std::string& tokenizer) {
  Opened opened;
  opened.model = load_model(path);
  std::filesystem::path source = tokenizer.empty() ? path : tokenizer;
  if (tokenizer.empty() && std::filesystem::exists(source / "model" / "config.json")) {
    source /= "model";  // a run folder
  }
  opened.tokenizer = Tokenizer::load(source);
  const int64_t rows = opened.model->vocabulary();
  if (rows > 0 && opened.tokenizer.vocab_size() > rows) {
    fail(ErrorKind::data, source.native(),
         "the tokenizer has {} tokens, the model {} embedding rows; they do not belong together",
         opened.tokenizer.vocab_size(), rows);
  }
  return opened;
}

void for_each_line(const std::function<void(const std::string&)>& fn) {
  std::string line;
  while (std::getline(std::cin, line)) {
    if (!line.empty() && line.back() == '\r') {
      line.pop_back();
    }
    fn(line);
  }
}

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    fail(ErrorKind::runtime, "stdout", "cannot be written; has the reader gone away?");
  }
}

void print_now(std::string_view text) {
  print(text);
  if (std::fflush(stdout) != 0) {
    fail(ErrorKind::runtime, "stdout", "cannot be written; has the reader gone away?");
  }
}

}  // namespace heed::app
