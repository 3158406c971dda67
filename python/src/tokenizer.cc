#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>

#include "module.h"

using namespace nanobind::literals;

namespace heed_python {
namespace {

nb::dict encoding_dict(const heed::Encoding& encoding) {
  nb::dict made;
  made["input_ids"] = encoding.ids;
  made["tokens"] = encoding.tokens;
  made["token_type_ids"] = encoding.type_ids;
  made["attention_mask"] = encoding.attention_mask;
  nb::list offsets;
  for (const heed::TextSpan& span : encoding.offsets) {
    offsets.append(nb::make_tuple(span.begin, span.end));
  }
  made["offsets"] = offsets;
  return made;
}

PyTokenizer train_tokenizer(const std::vector<std::string>& texts, const std::string& kind,
                            int64_t min_frequency) {
  heed::TokenizerTraining options = heed::parse_tokenizer_kind(kind);
  options.min_frequency = min_frequency;
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  return interruptible([&](std::stop_token) {
    return PyTokenizer{heed::train_tokenizer(views, options), ""};
  });
}

}  // namespace

void bind_tokenizer(nb::module_& m) {
  nb::class_<PyTokenizer>(m, "Tokenizer", nb::dynamic_attr(), "Turns text into ids and back.")
      .def_static(
          "load",
          [](const std::filesystem::path& path) {
            const nb::gil_scoped_release release;
            return PyTokenizer{heed::Tokenizer::load(heed::find_model(path)), path.string()};
          },
          "path"_a,
          "From a model folder, tokenizer.json, vocab.json, vocab.txt, a SentencePiece .model or a "
          ".gguf.")
      .def_static("train", &train_tokenizer, "texts"_a, "kind"_a = "bpe:8192",
                  "min_frequency"_a = 2,
                  "Trains on texts: \"char\", \"bpe:N\", \"wordpiece:N\" or \"unigram:N\".")
      .def(
          "encode",
          [](const PyTokenizer& self, const std::string& text, bool special) {
            return self.tokenizer.encode_ids(text, special);
          },
          "text"_a, "add_special_tokens"_a = true)
      .def(
          "__call__",
          [](const PyTokenizer& self, const std::string& text, bool special) {
            return encoding_dict(self.tokenizer.encode(text, special));
          },
          "text"_a, "add_special_tokens"_a = true,
          nb::sig("def __call__(self, text: str, add_special_tokens: bool = True) -> "
                  "dict[str, typing.Any]"))
      .def(
          "tokenize",
          [](const PyTokenizer& self, const std::string& text, bool special) {
            return self.tokenizer.encode(text, special).tokens;
          },
          "text"_a, "add_special_tokens"_a = false)
      .def(
          "decode",
          [](const PyTokenizer& self, nb::handle ids, bool skip) {
            const Tensor all = heed::cast(tensor_like(ids), DType::i64);
            return python_text(self.tokenizer.decode(all.to_vector<int64_t>(), skip));
          },
          "ids"_a, "skip_special_tokens"_a = true,
          nb::sig("def decode(self, ids: typing.Any, skip_special_tokens: bool = True) -> str"))
      .def(
          "labels",
          [](const PyTokenizer& self, const std::string& text) {
            return heed::token_labels(self.tokenizer.encode(text), text);
          },
          "text"_a, "What to call each token of a text in a picture.")
      .def(
          "token_to_id",
          [](const PyTokenizer& self, const std::string& token) {
            return self.tokenizer.token_to_id(token);
          },
          "token"_a)
      .def(
          "id_to_token",
          [](const PyTokenizer& self, heed::TokenId id) { return self.tokenizer.id_to_token(id); },
          "id"_a)
      .def_prop_ro("special_tokens",
                   [](const PyTokenizer& self) {
                     const heed::SpecialTokens& s = self.tokenizer.special();
                     std::map<std::string, heed::TokenId> made;
                     const std::pair<const char*, std::optional<heed::TokenId>> all[] = {
                         {"bos", s.bos},   {"eos", s.eos}, {"pad", s.pad}, {"unk", s.unk},
                         {"mask", s.mask}, {"cls", s.cls}, {"sep", s.sep}};
                     for (const auto& [name, id] : all) {
                       if (id) {
                         made[name] = *id;
                       }
                     }
                     return made;
                   })
      .def(
          "save",
          [](const PyTokenizer& self, const std::filesystem::path& path) {
            self.tokenizer.save(path);
          },
          "path"_a, "Writes a tokenizer.json that Hugging Face opens.")
      .def_prop_ro("vocab_size",
                   [](const PyTokenizer& self) { return self.tokenizer.vocab_size(); })
      .def("__len__", [](const PyTokenizer& self) { return self.tokenizer.vocab_size(); })
      .def_prop_ro("path", [](const PyTokenizer& self) { return self.path; })
      .def("__repr__",
           [](const PyTokenizer& self) {
             return "heed.Tokenizer(" + std::to_string(self.tokenizer.vocab_size()) + " tokens)";
           })
      .def("__reduce__", [](const PyTokenizer& self) {
        if (self.path.empty()) {
          throw nb::value_error("a tokenizer pickles by its path; save() and load() it first");
        }
        return nb::make_tuple(nb::module_::import_("heed").attr("_load_tokenizer"),
                              nb::make_tuple(self.path));
      });
}

}  // namespace heed_python
