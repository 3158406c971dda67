// How cost grows: attention and models for long sequences with the length, a GPT's training step
// with its width, batch and threads. Prints the figures and draws them: bench_growth [FOLDER
// [length|models|width|threads]] writes growth-*.svg there.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string_view>

#include "alternate.h"
#include "heed/models.h"
#include "heed/picture.h"
#include "heed/runtime.h"
#include "heed/tensor.h"
#include "heed/train.h"
#include "heed/transformer.h"

namespace {

using heed::LinePlot;
using heed::Series;
using heed::Tensor;

Tensor random_heads(int64_t length, uint64_t seed) {
  const Tensor x = Tensor::empty({1, 12, length, 64});
  heed::Random random(seed);
  float* values = x.data<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    values[i] = static_cast<float>(random.uniform() * 2 - 1);
  }
  return x;
}

/// Median milliseconds of a run.
double milliseconds(const std::function<void()>& run, int rounds) {
  std::vector<heed::bench::Contestant> one{{"", run}};
  heed::bench::alternate(one, rounds);
  return one.front().median() * 1e3;
}

void add_point(Series& series, double x, double y) {
  series.x.push_back(x);
  series.y.push_back(y);
  std::printf("%-28s %8.0f %12.2f\n", series.name.c_str(), x, y);
  std::fflush(stdout);
}

/// Forward passes of one sequence, 12 heads of 64, by its length.
LinePlot by_length() {
  LinePlot plot{"Attention forward, 12 heads of 64", "tokens", "milliseconds", {}};
  plot.log_x = plot.log_y = plot.markers = true;
  Series flash{"flash, causal", {}, {}};
  Series formula{"the formula, causal", {}, {}};
  Series longformer{"Longformer, window 512", {}, {}};
  Series performer{"Performer, 64 features", {}, {}};
  const Tensor projection = heed::performer_projection(64, 64, {1, 0});
  const heed::NoGrad no_grad;
  for (int64_t length = 512; length <= 16384; length *= 2) {
    const Tensor q = random_heads(length, 1);
    const Tensor k = random_heads(length, 2);
    const Tensor v = random_heads(length, 3);
    const auto x = static_cast<double>(length);
    const int rounds = length > 4096 ? 3 : 7;
    heed::AttentionOptions options;
    options.position = heed::Causal{};
    add_point(flash, x, milliseconds([&] { attention(q, k, v, options); }, rounds));
    if (length <= 4096) {  // its matrix takes 12 GB at 16384
      options.kernel = heed::AttentionKernel::reference;
      add_point(formula, x, milliseconds([&] { attention(q, k, v, options); }, rounds));
    }
    heed::LongformerInputs sparse;
    sparse.q = q;
    sparse.k = k;
    sparse.v = v;
    sparse.window = 512;
    add_point(longformer, x, milliseconds([&] { heed::longformer_attention(sparse); }, rounds));
    add_point(
        performer, x,
        milliseconds([&] { heed::performer_attention(q, k, v, projection, /*causal=*/false); },
                     rounds));
  }
  plot.series = {flash, formula, longformer, performer};
  return plot;
}

/// Tokens per second of training a GPT of four layers, 128 tokens per sequence.
double training_speed(int64_t width, int64_t batch) {
  constexpr int64_t kLength = 128;
  const auto model = heed::create_model(
      fmt::format(R"({{"model_type": "gpt2", "vocab_size": 1000, "n_positions": {}, "n_embd": {},
                       "n_layer": 4, "n_head": {}, "resid_pdrop": 0, "embd_pdrop": 0,
                       "attn_pdrop": 0}})",
                  kLength, width, width / 64),
      1);
  std::vector<heed::NamedTensor> parameters;
  for (const heed::Parameter& parameter : model->parameters()) {
    parameters.emplace_back(parameter.name, parameter.tensor);
  }
  heed::Optimizer optimizer(parameters, {.lr = 1e-4});
  heed::ModelInput input;
  input.input_ids = Tensor::empty({batch, kLength}, heed::DType::i64);
  for (int64_t i = 0; i < batch * kLength; ++i) {
    input.input_ids.data<int64_t>()[i] = i * 7919 % 1000;
  }
  input.labels = input.input_ids;
  input.training = true;
  input.want_logits = false;
  const double time = milliseconds(
      [&] {
        heed::backward(model->forward(input).loss);
        optimizer.step();
        optimizer.zero_grad();
      },
      5);
  return static_cast<double>(batch * kLength) / time * 1e3;
}

LinePlot speed_plot(const char* title, const char* x_title) {
  LinePlot plot{title, x_title, "tokens a second", {}};
  plot.log_x = plot.log_y = plot.markers = true;
  return plot;
}

LinePlot by_width_and_batch() {
  LinePlot plot = speed_plot("Training a GPT of 4 layers, 128 tokens per sequence", "width");
  for (const int64_t batch : {1, 4, 16}) {
    Series series{fmt::format("batch {}", batch), {}, {}};
    for (int64_t width = 64; width <= 1024; width *= 2) {
      add_point(series, static_cast<double>(width), training_speed(width, batch));
    }
    plot.series.push_back(series);
  }
  return plot;
}

/// Milliseconds of reading one sequence by models of two layers whose cost grows with its length,
/// and BERT's beside them.
LinePlot by_model_length() {
  constexpr int64_t kLongest = 16384;
  const std::string sizes = fmt::format(
      R"({{"vocab_size":1000,"hidden_size":128,"num_hidden_layers":2,"num_attention_heads":2,
          "intermediate_size":512,"max_position_embeddings":{0},"pad_token_id":1,"d_model":128,
          "encoder_layers":2,"decoder_layers":2,"encoder_attention_heads":2,
          "decoder_attention_heads":2,"encoder_ffn_dim":512,"decoder_ffn_dim":512,
          "max_encoder_position_embeddings":{0},"max_decoder_position_embeddings":64,)",
      kLongest + 2);
  const std::pair<const char*, const char*> families[] = {
      {"BERT", R"("model_type":"bert"})"},
      {"Longformer, window 128", R"("model_type":"longformer","attention_window":128})"},
      {"LED, window 128", R"("model_type":"led","attention_window":128})"},
      {"BigBird, blocks of 32", R"("model_type":"big_bird","block_size":32})"},
      {"FNet", R"("model_type":"fnet"})"},
      {"Nystromformer", R"("model_type":"nystromformer","segment_means_seq_len":16384})"},
      {"Performer", R"("model_type":"heed-performer","head":"none"})"},
  };
  LinePlot plot{"Reading one sequence, 2 layers of 128", "tokens", "milliseconds", {}};
  plot.log_x = plot.log_y = plot.markers = true;
  const heed::NoGrad no_grad;
  for (const auto& [name, config] : families) {
    const auto model = heed::create_model(sizes + config, 1);
    Series series{name, {}, {}};
    for (int64_t length = 1024; length <= kLongest; length *= 2) {
      heed::ModelInput input;
      input.input_ids = Tensor::empty({1, length}, heed::DType::i64);
      for (int64_t i = 0; i < length; ++i) {
        input.input_ids.data<int64_t>()[i] = 5 + i * 7919 % 990;
      }
      add_point(series, static_cast<double>(length),
                milliseconds([&] { model->encode(input); }, 3));
    }
    plot.series.push_back(series);
  }
  return plot;
}

LinePlot by_threads() {
  LinePlot plot = speed_plot("Training a GPT of 4 layers, batch 8, by threads", "threads");
  plot.log_x = plot.log_y = false;
  const int most = heed::thread_count();
  for (const int64_t width : {64, 256, 768}) {
    Series series{fmt::format("width {}, of one thread", width), {}, {}};
    double alone = 0;
    for (int threads = 1; threads <= most; ++threads) {
      heed::set_thread_count(threads);
      const double speed = training_speed(width, 8);
      alone = threads == 1 ? speed : alone;
      add_point(series, threads, speed / alone);
    }
    plot.series.push_back(series);
  }
  heed::set_thread_count(most);
  plot.y_title = "speed of one thread";
  return plot;
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : "build/growth";
  const std::string_view only = argc > 2 ? argv[2] : "";
  std::filesystem::create_directories(folder);
  const auto draw = [&](std::string_view name, LinePlot (*plot)()) {
    if (only.empty() || only == name) {
      heed::save_picture(folder / fmt::format("growth-{}.svg", name), plot());
    }
  };
  draw("length", by_length);
  draw("models", by_model_length);
  draw("width", by_width_and_batch);
  draw("threads", by_threads);
  std::printf("pictures are in %s\n", folder.c_str());
}
