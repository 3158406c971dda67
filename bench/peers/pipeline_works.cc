// Works that a user's whole request makes: texts to vectors, speech to text.
#include "pipeline_works.h"

#include "alternate.h"
#include "base/check.h"
#include "base/file.h"
#include "heed/io.h"
#include "heed/pipelines.h"

namespace heed::bench {
namespace {

std::vector<std::string> lines_of(const std::string& file) {
  std::vector<std::string> lines;
  std::string text = read_file(file);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// Vectors of the lines of a file, tokenizing included.
class Embed final : public PeerWork {
 public:
  explicit Embed(const Json& command)
      : pipeline_(command.string("model")), texts_(lines_of(command.string("text"))) {}

  double run() override {
    const double start = seconds_now();
    vectors_ = pipeline_(texts_);
    return seconds_now() - start;
  }
  std::vector<double> values() const override {
    std::vector<double> values;
    add_sample(vectors_.to_vector<float>(), values);
    return values;
  }

 private:
  FeatureExtraction pipeline_;
  std::vector<std::string> texts_;
  Tensor vectors_;
};

/// The text of a recording. Values: its bytes.
class Transcribe final : public PeerWork {
 public:
  explicit Transcribe(const Json& command)
      : pipeline_(command.string("model")), audio_(command.string("audio")) {}

  double run() override {
    const double start = seconds_now();
    text_ = pipeline_(audio_).text;
    return seconds_now() - start;
  }
  std::vector<double> values() const override {
    std::vector<double> values;
    for (const char c : text_) {
      values.push_back(static_cast<unsigned char>(c));
    }
    return values;
  }

 private:
  SpeechRecognition pipeline_;
  std::string audio_;
  std::string text_;
};

}  // namespace

std::unique_ptr<PeerWork> make_pipeline_work(const Json& command) {
  if (command.string("kind") == "embed") {
    return std::make_unique<Embed>(command);
  }
  return std::make_unique<Transcribe>(command);
}

}  // namespace heed::bench
