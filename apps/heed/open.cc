#include "heed/open.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <future>
#include <iostream>

#include "base/check.h"
#include "base/text.h"

namespace heed::app {

Opened open_model(const std::string& path, const std::string& tokenizer, const LoadOptions& load) {
  Opened opened;
  std::filesystem::path source = tokenizer.empty() ? path : tokenizer;
  if (tokenizer.empty() && std::filesystem::exists(source / "model" / "config.json")) {
    source /= "model";  // a run folder
  }
  // Side by side: each takes tens of milliseconds with a file of the usual size.
  std::future<Tokenizer> reading =
      std::async(std::launch::async, [&source] { return Tokenizer::load(source); });
  opened.model = load_model(path, load);
  opened.tokenizer = reading.get();
  const int64_t rows = opened.model->vocab_size();
  if (rows > 0 && opened.tokenizer.vocab_size() > rows) {
    fail(ErrorKind::data, source.native(),
         "the tokenizer has {} tokens, the model {} embedding rows; they do not belong together",
         opened.tokenizer.vocab_size(), rows);
  }
  return opened;
}

void check_suits(bool suits, std::string_view command, const Model& model,
                 std::string_view use_instead) {
  if (!suits) {
    fail(ErrorKind::usage, command, "this {} is no model for it; {}", model.model_type(),
         use_instead);
  }
}

TextBatch encode_texts(const Opened& opened, const std::vector<std::string>& texts) {
  const ModelKind kind = opened.model->kind();
  check_suits(kind != ModelKind::vision && kind != ModelKind::vision_decoder, "text", *opened.model,
              "it reads images");
  constexpr size_t kQuoted = 40;  // bytes: enough of a text to find it by
  std::vector<std::vector<int32_t>> all;
  TextBatch batch;
  int64_t longest = 1;
  const int64_t context = opened.model->context_length();
  for (const std::string& text : texts) {
    all.push_back(opened.tokenizer.encode_ids(text, true));
    const auto length = static_cast<int64_t>(all.back().size());
    check(length > 0, "text", "'{}' has no tokens", text);
    check(context == 0 || length <= context, "text", "{} has {} tokens; the model's context is {}",
          quote(text, kQuoted), length, context);
    batch.lengths.push_back(length);
    longest = std::max(longest, length);
  }
  const auto rows = static_cast<int64_t>(texts.size());
  batch.input.input_ids = Tensor::zeros({rows, longest}, DType::i64);
  batch.input.attention_mask = Tensor::zeros({rows, longest}, DType::i64);
  for (size_t i = 0; i < all.size(); ++i) {
    const int64_t start = static_cast<int64_t>(i) * longest;
    std::copy(all[i].begin(), all[i].end(), batch.input.input_ids.data<int64_t>() + start);
    std::fill_n(batch.input.attention_mask.data<int64_t>() + start, all[i].size(), 1);
  }
  batch.input.skip_padding = true;
  return batch;
}

void for_each_batch(const std::vector<std::string>& texts, int64_t batch,
                    const std::function<void(const std::vector<std::string>&)>& fn) {
  std::vector<std::string> waiting;
  auto add = [&](const std::string& text) {
    waiting.push_back(text);
    if (static_cast<int64_t>(waiting.size()) == batch) {
      fn(waiting);
      waiting.clear();
    }
  };
  if (texts.empty()) {
    for_each_line(add);
  } else {
    std::for_each(texts.begin(), texts.end(), add);
  }
  if (!waiting.empty()) {
    fn(waiting);
  }
}

void for_each_line(const std::function<void(const std::string&)>& fn) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::string line;
  for (bool first = true; std::getline(std::cin, line); first = false) {
    if (first && line.starts_with(kByteOrderMark)) {
      line.erase(0, kByteOrderMark.size());
    }
    if (!line.empty() && line.back() == '\r') {
      line.pop_back();
    }
    fn(line);
  }
}

namespace {

[[noreturn]] void cannot_print() {
  if (errno == EPIPE) {
    throw ReaderGone();
  }
  fail(ErrorKind::runtime, "stdout", "cannot be written: {}", std::strerror(errno));
}

}  // namespace

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    cannot_print();
  }
}

void print_now(std::string_view text) {
  print(text);
  if (std::fflush(stdout) != 0) {
    cannot_print();
  }
}

}  // namespace heed::app
