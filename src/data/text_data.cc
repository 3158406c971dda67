#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "base/check.h"
#include "base/utf8.h"
#include "data/shard.h"
#include "data/sources.h"
#include "data/text_reader.h"
#include "data/token_cache.h"
#include "data/tokenize.h"
#include "data/tokenize_ranks.h"
#include "heed/data.h"

namespace heed {
namespace {

using std::filesystem::path;
using Form = BatchTokenizer::Form;

std::vector<path> files_of_pairs(const std::string& data) {
  const std::vector<path> two = expand_two_files(data);
  return two.empty() ? expand_files(data) : two;
}

bool is_whole_number(std::string_view text, int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string> find_labels(const std::string& data, const DataOptions& options) {
  constexpr size_t kMost = 10000;
  constexpr size_t kLongest = 4096;
  std::set<std::string> found;
  visit_labelled(data, options, [&](LabelledText example, const TableReader& table) {
    check_data(example.label.size() <= kLongest, table.where(),
               "a label has {} bytes; at most {} are supported; is it the right column?",
               example.label.size(), kLongest);
    found.insert(std::move(example.label));
    check_data(found.size() <= kMost, data, "has more than {} labels; is it the right column?",
               kMost);
    return true;
  });
  std::vector<std::string> labels(found.begin(), found.end());
  int64_t value = 0;
  if (std::all_of(labels.begin(), labels.end(),
                  [&](const std::string& label) { return is_whole_number(label, value); })) {
    std::sort(labels.begin(), labels.end(), [](const std::string& a, const std::string& b) {
      int64_t first = 0;
      int64_t second = 0;
      is_whole_number(a, first);
      is_whole_number(b, second);
      return first < second;
    });
  }
  return labels;
}

void make_labelled(const std::string& data, const Tokenizer& tokenizer, const CacheKey& key,
                   const std::vector<std::string>& labels, const DataOptions& options) {
  std::map<std::string, TokenId> id_of;
  for (size_t i = 0; i < labels.size(); ++i) {
    id_of.emplace(labels[i], static_cast<TokenId>(i));
  }
  ShardWriter text(key.file("text"), tokenizer.vocab_size());
  ShardWriter label(key.file("label"), static_cast<int64_t>(labels.size()));
  BatchTokenizer texts(tokenizer, text, Form::sequence);
  visit_labelled(
      data, options,
      [&](LabelledText example, const TableReader& table) {
        const auto found = id_of.find(example.label);
        check_data(found != id_of.end(), table.where(), "the label {} is none of the {} known",
                   quote(example.label), labels.size());
        label.append({&found->second, 1});
        label.end_sequence();
        texts.add(std::move(example.text));
        return true;
      },
      key.progress());
  texts.flush();
  text.finish(key.value());
  label.finish(key.value());
}

}  // namespace

TokenShard load_text(const std::string& data, const Tokenizer& tokenizer,
                     const DataOptions& options) {
  const std::vector<path> files = expand_files(data);
  CacheKey key("running text 2", files, options);
  key.add(options.text_field);
  key.add(tokenizer);
  TokenShard shard = key.find("tokens");
  if (!all_have(static_cast<bool>(shard), key.value(), data)) {
    key.make([&] {
      ShardWriter writer(key.file("tokens"), tokenizer.vocab_size());
      BatchTokenizer texts(tokenizer, writer, Form::running);
      const auto end = tokenizer.special().eos;
      visit_texts(files, options,
                  {[&](std::string text) {
                     texts.add(std::move(text));
                     return true;
                   },
                   [&] {
                     if (end) {
                       texts.add_token(*end);
                     }
                   }},
                  key.progress());
      texts.flush();
      writer.finish(key.value());
    });
    shard = TokenShard::open(key.file("tokens"));
  }
  check_data(shard.tokens() > 0, data, "has no text");
  return shard;
}

PairData load_pairs(const std::string& data, const Tokenizer& source, const Tokenizer& target,
                    const DataOptions& options) {
  CacheKey key("pairs 2", files_of_pairs(data), options);
  key.add(options.source_field);
  key.add(options.target_field);
  key.add(source);
  key.add(target);
  PairData pairs{key.find("source"), key.find("target")};
  if (!all_have(pairs.source && pairs.target, key.value(), data)) {
    key.make([&] {
      ShardWriter source_shard(key.file("source"), source.vocab_size());
      ShardWriter target_shard(key.file("target"), target.vocab_size());
      BatchTokenizer sources(source, source_shard, Form::sequence);
      BatchTokenizer targets(target, target_shard, Form::sequence);
      visit_pairs(
          data, options,
          [&](TextPair pair) {
            sources.add(std::move(pair.source));
            targets.add(std::move(pair.target));
            return true;
          },
          key.progress());
      sources.flush();
      targets.flush();
      source_shard.finish(key.value());
      target_shard.finish(key.value());
    });
    pairs = {TokenShard::open(key.file("source")), TokenShard::open(key.file("target"))};
  }
  check_data(pairs.source.sequences() > 0, data, "has no pairs");
  return pairs;
}

LabelledData load_labelled(const std::string& data, const Tokenizer& tokenizer,
                           const std::vector<std::string>& labels, const DataOptions& options) {
  CacheKey key("labelled 2", expand_files(data), options);
  key.add(options.text_field);
  key.add(options.label_field);
  key.add(tokenizer);
  for (const std::string& label : labels) {
    key.add(label);
  }
  LabelledData result{key.find("text"), key.find("label"), key.find_labels()};
  if (!all_have(result.text && result.label && !result.labels.empty(), key.value(), data)) {
    result.labels = labels.empty() ? find_labels(data, options) : labels;
    key.make([&] {
      make_labelled(data, tokenizer, key, result.labels, options);
      key.save_labels(result.labels);
    });
    result.text = TokenShard::open(key.file("text"));
    result.label = TokenShard::open(key.file("label"));
  }
  check_data(result.text.sequences() > 0, data, "has no labelled texts");
  return result;
}

std::vector<std::string> read_texts(const std::string& data, const DataOptions& options,
                                    int64_t max_bytes) {
  std::vector<std::string> texts;
  int64_t bytes = 0;
  visit_texts(expand_files(data), options,
              {[&](std::string text) {
                 bytes += static_cast<int64_t>(text.size());
                 texts.push_back(std::move(text));
                 return bytes < max_bytes;
               },
               [] {}});
  return texts;
}

std::vector<TextPair> read_pairs(const std::string& data, const DataOptions& options,
                                 int64_t limit) {
  std::vector<TextPair> pairs;
  visit_pairs(data, options, [&](TextPair pair) {
    pairs.push_back(std::move(pair));
    return static_cast<int64_t>(pairs.size()) < limit;
  });
  return pairs;
}

std::vector<LabelledText> read_labelled(const std::string& data, const DataOptions& options,
                                        int64_t limit) {
  std::vector<LabelledText> examples;
  visit_labelled(data, options, [&](LabelledText example, const TableReader&) {
    examples.push_back(std::move(example));
    return static_cast<int64_t>(examples.size()) < limit;
  });
  return examples;
}

TokenShard tokenize_all(const std::vector<std::string>& texts, const Tokenizer& tokenizer) {
  std::vector<std::vector<TokenId>> sequences;
  sequences.reserve(texts.size());
  for (const std::string& text : texts) {
    sequences.push_back(tokenizer.encode_ids(text));
  }
  return TokenShard::from(sequences);
}

}  // namespace heed
