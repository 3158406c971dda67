#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "base/base64.h"
#include "heed/pipelines.h"
#include "heed/runtime.h"
#include "heed/tensor.h"
#include "io/json_writer.h"
#include "pipelines/speech_features.h"
#include "serve/handlers.h"
#include "text/unicode.h"

namespace heed::serve {
namespace {

/// 00:01:02,345, with the separator that the format wants.
std::string clock_time(double seconds, char separator) {
  const auto all = static_cast<int64_t>(std::llround(seconds * 1000.0));
  return fmt::format("{:02}:{:02}:{:02}{}{:03}", all / 3'600'000, all / 60'000 % 60,
                     all / 1000 % 60, separator, all % 1000);
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin);
}

std::string subtitles(const Transcript& transcript, bool web) {
  std::string out = web ? "WEBVTT\n\n" : "";
  int64_t number = 0;
  for (const SpokenSegment& each : transcript.segments) {
    out += web ? "" : fmt::format("{}\n", ++number);
    out += fmt::format("{} --> {}\n{}\n\n", clock_time(each.start, web ? '.' : ','),
                       clock_time(each.end, web ? '.' : ','), trimmed(each.text));
  }
  return out;
}

void write_segments(JsonWriter& json, const Transcript& transcript) {
  json.key("segments").begin_array();
  for (size_t i = 0; i < transcript.segments.size(); ++i) {
    const SpokenSegment& each = transcript.segments[i];
    json.begin_object().field("id", i).field("start", each.start).field("end", each.end);
    json.field("text", each.text).key("tokens").begin_array();
    for (const TokenId id : each.ids) {
      json.value(static_cast<int64_t>(id));
    }
    json.end_array().field("avg_logprob", each.log_probability);
    json.field("no_speech_prob", each.no_speech_probability).end_object();
  }
  json.end_array();
}

void write_words(JsonWriter& json, const Transcript& transcript) {
  json.key("words").begin_array();
  for (const SpokenSegment& segment : transcript.segments) {
    for (const SpokenWord& word : segment.words) {
      json.begin_object().field("word", trimmed(word.text));
      json.field("start", word.start).field("end", word.end).end_object();
    }
  }
  json.end_array();
}

HttpResponse answer_in(const std::string& format, const Transcript& transcript, bool words) {
  HttpResponse response;
  if (format == "text" || format == "srt" || format == "vtt") {
    response.content_type =
        format == "vtt" ? "text/vtt; charset=utf-8" : "text/plain; charset=utf-8";
    response.body = text::replace_invalid(
        format == "text" ? transcript.text + "\n" : subtitles(transcript, format == "vtt"));
    return response;
  }
  JsonWriter json;
  json.begin_object();
  if (format == "verbose_json") {
    json.field("task", "transcribe").field("language", transcript.language);
    json.field("duration", transcript.duration);
  }
  json.field("text", transcript.text);
  if (format == "verbose_json") {
    write_segments(json, transcript);
    if (words) {
      write_words(json, transcript);
    }
  }
  response.body = json.end_object().take();
  return response;
}

/// A recording of a request, as far as it has been read.
struct SentSpeech {
  std::string decoded;  // where it came as base64
  std::optional<AudioReader> reader;
  std::optional<SpeechFeatures> features;
};

void read_speech(const Call& call, SentSpeech& speech) {
  const auto sent = call.files.find("file");
  try {
    if (sent == call.files.end()) {
      speech.decoded = decode_base64(call.text("file"), "file");
    }
    const std::string& bytes = sent == call.files.end() ? speech.decoded : sent->second;
    speech.reader.emplace(bytes, "file", kSpeechRate);
    speech.features.emplace(*speech.reader, *call.model->model);
  } catch (const Stopped&) {
    throw;
  } catch (const Error& error) {
    throw BadRequest(error.what(), "file", "invalid_audio");
  }
}

void transcribe(const CallPtr& call, const std::string& task) {
  SentSpeech speech;
  read_speech(*call, speech);
  SpeechOptions options;
  options.language = call->text("language");
  options.task = task;
  for (const std::string& each : call->texts("timestamp_granularities")) {
    if (each != "word" && each != "segment") {
      throw BadRequest("'timestamp_granularities' must hold word or segment",
                       "timestamp_granularities");
    }
    options.word_times = options.word_times || each == "word";
  }
  const NoGrad no_grad;
  // Shares the ownership of the whole: the model lives as long as the request.
  const heed::LoadedModel loaded{
      call->model->path, std::shared_ptr<const Model>(call->model, call->model->model.get()),
      call->model->tokenizer};
  try {
    const SpeechRecognition suits(loaded);  // refuses models for other work
    const Transcript transcript = transcribe_features(loaded, *speech.features, options);
    call->exchange->respond(
        answer_in(call->text("response_format"), transcript, options.word_times));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::usage) {  // a language that the model does not know
      throw BadRequest(error.what(), "language");
    }
    throw;
  }
}

}  // namespace

void answer_transcription(const CallPtr& call) { transcribe(call, "transcribe"); }

void answer_audio_translation(const CallPtr& call) { transcribe(call, "translate"); }

}  // namespace heed::serve
