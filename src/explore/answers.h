#pragma once

#include "explore/json.h"

// What each route of the protocol answers for a trace, as JSON.

namespace heed::explore {

// prediction_answers.cc
void write_prediction(JsonWriter& json, Trace& trace, int64_t position, int64_t top_k,
                      double temperature = 1.0, bool all_logits = false);
std::vector<double> softmax_of(const Row& logits, double temperature = 1.0);
std::string answer_predict(Trace& trace, const Json& body);
std::string answer_lens(Trace& trace, const Json& body);
std::string answer_attribution(Trace& trace, const Json& body);

// attention_answers.cc
std::string answer_heads(Trace& trace, const Json& body);
std::string answer_tile(Trace& trace, const Json& body);
std::string answer_rows(Trace& trace, const Json& body);
std::string answer_head(Trace& trace, const Json& body);

// layer_answers.cc
std::string answer_steps(Trace& trace, const Json& body);
std::string answer_why(Trace& trace, const Json& body);
std::string answer_activation(Trace& trace, const Json& body);

// model_info.cc: one entry of /heed/v1/models, from a pass over a short input.
std::string describe_model(const ExplorerModel& model);
/// Texts to begin with, for models that know only the words of their training: a reader's
/// sentences, the samples of a training run. The page has texts of its own for the others.
std::vector<std::string> example_texts(const ExplorerModel& model);  // examples.cc
/// The entry of a model that has not been opened yet.
std::string describe_unopened(const std::string& id);
std::string answer_parameters(const ExplorerModel& model);
std::string answer_parameter(const ExplorerModel& model, const Json& body);

// runs.cc
/// A run's own name: that of its folder.
std::string run_name(const std::filesystem::path& run);
/// `models`: ids of the served models, among which the run's own may be.
std::string describe_run(const std::filesystem::path& run, const std::vector<std::string>& models);
/// A checkpoint of one of the runs by its id, "RUN@STEP"; nothing for any other id.
std::optional<ExplorerModel> open_checkpoint(const std::vector<std::filesystem::path>& runs,
                                             const std::string& id);
std::string answer_run(const std::filesystem::path& run, const std::vector<std::string>& models,
                       std::string_view what, std::string_view query, const Json* body);

}  // namespace heed::explore
