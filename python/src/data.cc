#include <heed/lessons.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>

#include "module.h"

using namespace nanobind::literals;

namespace heed_python {
namespace {

heed::SyntheticOptions synthetic(const std::string& language, uint64_t seed, bool held_out) {
  return {heed::parse_language(language), seed, held_out};
}

// Batches -----------------------------------------------------------------------------------------

nb::dict batch_dict(const heed::Batch& batch) {
  nb::dict made;
  const std::pair<const char*, const Tensor&> all[] = {
      {"input_ids", batch.input_ids},
      {"attention_mask", batch.attention_mask},
      {"decoder_input_ids", batch.decoder_input_ids},
      {"decoder_attention_mask", batch.decoder_attention_mask},
      {"pixel_values", batch.pixel_values},
      {"features", batch.features},
      {"decoder_features", batch.decoder_features},
      {"labels", batch.labels}};
  for (const auto& [name, tensor] : all) {
    if (tensor.defined()) {
      made[name] = tensor;
    }
  }
  return made;
}

heed::LoaderOptions loader_options(int64_t batch_size, uint64_t seed, bool shuffle,
                                   double validation, bool held_out) {
  heed::LoaderOptions options;
  options.batch = batch_size;
  options.seed = seed;
  options.shuffle = shuffle;
  options.validation = validation;
  options.part = validation == 0 ? heed::Part::all
                 : held_out      ? heed::Part::validation
                                 : heed::Part::train;
  return options;
}

using Ids = std::vector<std::vector<heed::TokenId>>;

void bind_loaders(nb::module_& m) {
  nb::class_<heed::Loader>(m, "Loader")
      .def(
          "next",
          [](heed::Loader& self) {
            std::optional<heed::Batch> batch;
            {
              const nb::gil_scoped_release release;
              batch = self.next();
            }
            return batch_dict(*batch);
          },
          nb::sig("def next(self) -> dict[str, Tensor]"))
      .def(
          "batch",
          [](const heed::Loader& self, int64_t step) { return batch_dict(self.batch(step)); },
          "step"_a, nb::sig("def batch(self, step: int) -> dict[str, Tensor]"))
      .def_prop_ro("steps_per_epoch", &heed::Loader::steps_per_epoch)
      .def_prop_ro("examples", &heed::Loader::examples)
      .def("at_end", &heed::Loader::at_end);
  m.def(
      "lm_loader",
      [](const std::vector<heed::TokenId>& ids, int64_t context, int64_t batch_size, uint64_t seed,
         bool shuffle, double validation, bool held_out) {
        return heed::make_lm_loader(
            heed::TokenShard::from({ids}), context,
            loader_options(batch_size, seed, shuffle, validation, held_out));
      },
      "ids"_a, "context"_a, "batch_size"_a, "seed"_a, "shuffle"_a, "validation"_a, "held_out"_a);
  m.def(
      "pair_loader",
      [](const Ids& sources, const Ids& targets, heed::TokenId padding, heed::TokenId start,
         heed::TokenId end, int64_t batch_size, uint64_t seed, bool shuffle, double validation,
         bool held_out) {
        return heed::make_pair_loader(
            {heed::TokenShard::from(sources), heed::TokenShard::from(targets)},
            {padding, start, end}, loader_options(batch_size, seed, shuffle, validation, held_out));
      },
      "sources"_a, "targets"_a, "padding"_a, "start"_a, "end"_a, "batch_size"_a, "seed"_a,
      "shuffle"_a, "validation"_a, "held_out"_a);
  m.def(
      "class_loader",
      [](const Ids& texts, const std::vector<heed::TokenId>& labels, heed::TokenId padding,
         int64_t batch_size, uint64_t seed, bool shuffle, double validation, bool held_out) {
        Ids each;
        for (const heed::TokenId label : labels) {
          each.push_back({label});
        }
        return heed::make_class_loader(
            {heed::TokenShard::from(texts), heed::TokenShard::from(each), {}}, {padding, 0, -1},
            loader_options(batch_size, seed, shuffle, validation, held_out));
      },
      "texts"_a, "labels"_a, "padding"_a, "batch_size"_a, "seed"_a, "shuffle"_a, "validation"_a,
      "held_out"_a);
  m.def(
      "caption_loader",
      [](const Tensor& features, const Ids& captions, heed::TokenId padding, heed::TokenId start,
         heed::TokenId end, int64_t batch_size, uint64_t seed, bool shuffle) {
        heed::FeatureData data;
        data.features = features;
        data.captions.resize(captions.size());
        return heed::make_caption_loader(data, heed::TokenShard::from(captions),
                                         {padding, start, end},
                                         loader_options(batch_size, seed, shuffle, 0, false));
      },
      "features"_a, "captions"_a, "padding"_a, "start"_a, "end"_a, "batch_size"_a, "seed"_a,
      "shuffle"_a);
}

// Attention weights under the magnifier -----------------------------------------------------------

void bind_inspection(nb::module_& m) {
  nb::class_<heed::AttentionPatterns>(m, "AttentionPatterns")
      .def_ro("diagonal", &heed::AttentionPatterns::diagonal)
      .def_ro("previous", &heed::AttentionPatterns::previous)
      .def_ro("first", &heed::AttentionPatterns::first)
      .def_ro("local", &heed::AttentionPatterns::local)
      .def_ro("uniform", &heed::AttentionPatterns::uniform)
      .def_ro("entropy", &heed::AttentionPatterns::entropy)
      .def_ro("mean_distance", &heed::AttentionPatterns::mean_distance)
      .def_prop_ro("name",
                   [](const heed::AttentionPatterns& self) { return heed::name_of_pattern(self); })
      .def("__repr__", [](const heed::AttentionPatterns& self) {
        return "AttentionPatterns(" + heed::name_of_pattern(self) + ")";
      });
  m.def(
      "attention_patterns",
      [](nb::handle weights, int64_t offset) {
        return heed::attention_patterns(tensor_like(weights), offset);
      },
      "weights"_a, "offset"_a = 0,
      nb::sig("def attention_patterns(weights: typing.Any, offset: int = 0) -> "
              "AttentionPatterns"),
      "How one head's weights [Tq, Tk] attend.");
  m.def(
      "validate_weights",
      [](nb::handle weights, bool causal, int64_t offset) {
        return heed::validate_weights(tensor_like(weights), causal, offset).problems;
      },
      "weights"_a, "causal"_a = false, "offset"_a = 0,
      nb::sig("def validate_weights(weights: typing.Any, causal: bool = False, offset: int = 0) "
              "-> list[str]"),
      "What is wrong with a matrix of weights, in words; an empty list where all is well.");
  m.def(
      "attention_matrix_bytes",
      [](int64_t length, int64_t heads) {
        return heed::attention_matrix_bytes(length, DType::f32, heads);
      },
      "length"_a, "heads"_a = 1, "Bytes of the matrix of weights in f32.");
}

}  // namespace

void bind_data(nb::module_& m) {
  m.def("synthetic_sets", [] {
    std::vector<std::pair<std::string, std::string>> all;
    for (const heed::SyntheticDataset& each : heed::synthetic_datasets()) {
      all.emplace_back(each.name, each.summary);
    }
    return all;
  });
  m.def(
      "synthetic_example",
      [](const std::string& name, uint64_t index, const std::string& language, uint64_t seed,
         bool held_out) {
        return python_from(
            heed::synthetic_line(name, synthetic(language, seed, held_out), index, true));
      },
      "name"_a, "index"_a, "language"_a, "seed"_a, "held_out"_a,
      nb::sig("def synthetic_example(name: str, index: int, language: str, seed: int, "
              "held_out: bool) -> dict[str, typing.Any]"));
  m.def(
      "shapes_example",
      [](uint64_t index, uint64_t seed, bool held_out) {
        const heed::ShapesExample made =
            heed::shapes_example(synthetic("en", seed, held_out), index);
        return std::pair(made.pixels, made.caption);
      },
      "index"_a, "seed"_a, "held_out"_a);
  m.def(
      "write_synthetic_set",
      [](const std::string& name, int64_t count, const std::filesystem::path& path,
         const std::string& language, uint64_t seed, bool held_out) {
        const nb::gil_scoped_release release;
        heed::write_synthetic_dataset(name, synthetic(language, seed, held_out), count, path);
      },
      "name"_a, "count"_a, "path"_a, "language"_a, "seed"_a, "held_out"_a);
  bind_loaders(m);
  bind_inspection(m);
}

}  // namespace heed_python
