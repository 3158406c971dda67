#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "base/check.h"
#include "base/printable.h"
#include "heed/command.h"
#include "heed/generation_options.h"
#include "heed/lines.h"
#include "heed/model_options.h"
#include "heed/open.h"
#include "heed/pipelines.h"
#include "heed/print_generated.h"
#include "io/json_writer.h"

namespace heed::app::transcribe_command {
namespace {

struct Options {
  std::string model, tokenizer, adapter;
  std::vector<std::string> files;
  std::string format = "text", kv_type = "f32";
  bool timestamps = false;
  SpeechOptions speech;
};

/// "00:01:02,345", or "01:02.345" where `mark` is a point.
std::string clock(double seconds, char mark) {
  const auto milliseconds = static_cast<int64_t>(std::llround(seconds * 1000.0));
  const std::string rest = fmt::format("{:02}:{:02}{}{:03}", milliseconds / 60000 % 60,
                                       milliseconds / 1000 % 60, mark, milliseconds % 1000);
  return mark == ',' || milliseconds >= 3600000
             ? fmt::format("{:02}:{}", milliseconds / 3600000, rest)
             : rest;
}

std::string_view without_space(const std::string& text) {
  return std::string_view(text).substr(std::min(text.find_first_not_of(' '), text.size()));
}

std::string plain_text(const Transcript& transcript, bool timestamps) {
  if (!timestamps) {
    return transcript.text + "\n";
  }
  std::string text;
  for (const SpokenSegment& each : transcript.segments) {
    text += fmt::format("[{} --> {}] {}\n", clock(each.start, '.'), clock(each.end, '.'),
                        without_space(each.text));
  }
  return text;
}

std::string srt_text(const Transcript& transcript) {
  std::string text;
  for (size_t i = 0; i < transcript.segments.size(); ++i) {
    const SpokenSegment& each = transcript.segments[i];
    text += fmt::format("{}\n{} --> {}\n{}\n\n", i + 1, clock(each.start, ','),
                        clock(each.end, ','), without_space(each.text));
  }
  return text;
}

std::string json_text(const std::string& file, const Transcript& transcript) {
  JsonWriter json;
  json.begin_object().field("file", file).field("text", transcript.text);
  json.field("language", transcript.language);
  json.field("language_probability", transcript.language_probability);
  json.field("duration", transcript.duration).key("segments").begin_array();
  for (size_t i = 0; i < transcript.segments.size(); ++i) {
    const SpokenSegment& each = transcript.segments[i];
    json.begin_object().field("id", static_cast<int64_t>(i));
    json.field("start", each.start).field("end", each.end).field("text", each.text);
    json.field("tokens", each.ids).field("avg_logprob", each.log_probability);
    json.field("no_speech_prob", each.no_speech_probability).key("words").begin_array();
    for (const SpokenWord& word : each.words) {
      json.begin_object().field("word", word.text).field("start", word.start);
      json.field("end", word.end).field("probability", word.probability).end_object();
    }
    json.end_array().end_object();
  }
  return json.end_array().end_object().take() + "\n";
}

int run(const Options& options, const Common& common) {
  const bool json = common.json || options.format == "json";
  SpeechOptions speech = options.speech;
  speech.word_times = json;
  const SpeechRecognition transcribe(
      options.model,
      {.tokenizer = options.tokenizer,
       .load = {.kv_type = dtype_from_name(options.kv_type), .adapter = options.adapter}});
  return for_each_file(options.files, [&](const std::string& file) {
    const Transcript transcript = transcribe(file, speech);
    if (json) {
      print(json_text(file, transcript));
    } else if (options.format == "srt") {
      print_generated(srt_text(transcript));
    } else {
      const std::string text = plain_text(transcript, options.timestamps);
      print_generated(options.files.size() == 1 ? text
                                                : fmt::format("{}\t{}", printable(file), text));
    }
  });
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table.add("MODEL", &o->model, "Model folder of a speech recognition model (whisper)")
      .required()
      .file();
  table.add("AUDIO", &o->files, "WAV, FLAC, OGG or MP3").required().file();
  add_tokenizer(table, o->tokenizer);
  add_adapter(table, o->adapter);
  add_kv_type(table, o->kv_type);
  table.add("--language", &o->speech.language,
            "Language spoken, such as en or ko (default: detected in the first 30 seconds)");
  table.add("--task", &o->speech.task, "Transcribe the speech, or translate it into English")
      .choices({"transcribe", "translate"});
  table.add("--condition-on-previous", &o->speech.condition_on_previous,
            "Condition each window of 30 seconds on the text of the previous ones");
  table.group("Output");
  table.add("--format", &o->format, "Text, subtitles, or JSON with the times of words")
      .choices({"text", "srt", "json"});
  table.add("--timestamps", &o->timestamps, "Print the times of each segment before its text");
  return [o, &common] { return run(*o, common); };
}

const Registration kRegistration{
    {"transcribe",
     "Turn speech into text",
     {"heed transcribe whisper-base/ speech.flac --timestamps",
      "heed transcribe whisper-base/ talk.ogg --format srt > talk.srt"},
     setup}};

}  // namespace
}  // namespace heed::app::transcribe_command
