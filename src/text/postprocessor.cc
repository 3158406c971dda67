#include "text/postprocessor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace heed::text {
namespace {

using Item = PostProcessor::Item;

Item special_item(int32_t id, int32_t type_id) { return {Item::Kind::special, type_id, {id}}; }

constexpr int64_t kLargestId = int64_t{1} << 30;

/// Special tokens around one text; real templates have a few.
constexpr size_t kMostSpecial = 256;

/// A post-processor's ["token", id].
int32_t token_pair(const Json& pair) {
  if (pair.size() != 2) {
    pair.refuse("is not [token, id]");
  }
  return static_cast<int32_t>(pair[1].integer(0, kLargestId));
}

std::vector<TokenId> special_ids(const Json& json, const std::string& token) {
  std::vector<TokenId> ids;
  for (const int64_t id : json.at("special_tokens").at(token).at("ids").integers(0, kLargestId)) {
    ids.push_back(id);
  }
  return ids;
}

std::vector<Item> read_template(const Json& json, std::string_view name) {
  std::vector<Item> items;
  size_t count = 0;
  bool seen[2] = {false, false};  // A and B
  for (const Json& entry : json.at(name).elements()) {
    const bool special = entry.has("SpecialToken");
    const Json part = entry.at(special ? "SpecialToken" : "Sequence");
    Item item{
        Item::Kind::special, static_cast<int32_t>(part.integer_or("type_id", 0, 0, 1 << 20)), {}};
    if (special) {
      item.ids = special_ids(json, part.string("id"));
      count += std::max<size_t>(item.ids.size(), 1);
      if (count > kMostSpecial) {
        entry.refuse(fmt::format("is one of more than {} special tokens", kMostSpecial));
      }
    } else {
      const std::string id = part.string("id");
      if (id != "A" && id != "B") {
        part.at("id").refuse("is neither A nor B");
      }
      if (std::exchange(seen[id == "B" ? 1 : 0], true)) {
        entry.refuse(fmt::format("puts {} into the text a second time", id));
      }
      item.kind = id == "A" ? Item::Kind::first : Item::Kind::second;
    }
    items.push_back(std::move(item));
  }
  return items;
}

PostProcessor roberta(const Json& json) {
  const int32_t cls = token_pair(json.at("cls"));
  const int32_t sep = token_pair(json.at("sep"));
  PostProcessor result;
  result.trim_offsets = json.boolean_or("trim_offsets", true);
  result.add_prefix_space = json.boolean_or("add_prefix_space", true);
  result.single = {special_item(cls, 0), {Item::Kind::first, 0, {}}, special_item(sep, 0)};
  result.pair = {special_item(cls, 0), {Item::Kind::first, 0, {}},  special_item(sep, 0),
                 special_item(sep, 0), {Item::Kind::second, 0, {}}, special_item(sep, 0)};
  return result;
}

PostProcessor sequence(const Json& json) {
  PostProcessor result;
  for (size_t i = 0; i < json.at("processors").size(); ++i) {
    const Json part = json.at("processors")[i];
    PostProcessor next = make_postprocessor(part);
    if (result.trim_offsets && !next.trim_offsets) {
      next.trim_offsets = true;
      next.add_prefix_space = result.add_prefix_space;
    }
    if (part.string("type") == "ByteLevel") {  // it says nothing about special tokens
      next.single = result.single;
      next.pair = result.pair;
    }
    result = std::move(next);
  }
  return result;
}

template <class T>
void keep_range(std::vector<T>& values, size_t begin, size_t end) {
  values.erase(values.begin() + static_cast<ptrdiff_t>(end), values.end());
  values.erase(values.begin(), values.begin() + static_cast<ptrdiff_t>(begin));
}

void cut(Encoding& encoding, int64_t length, Side side) {
  const size_t size = encoding.ids.size();
  const auto want = static_cast<size_t>(std::max<int64_t>(length, 0));
  if (want >= size) {
    return;
  }
  const size_t begin = side == Side::right ? 0 : size - want;
  keep_range(encoding.ids, begin, begin + want);
  keep_range(encoding.tokens, begin, begin + want);
  keep_range(encoding.offsets, begin, begin + want);
  keep_range(encoding.type_ids, begin, begin + want);
  keep_range(encoding.attention_mask, begin, begin + want);
  keep_range(encoding.special_tokens_mask, begin, begin + want);
}

}  // namespace

int64_t PostProcessor::count_special(bool with_pair) const {
  int64_t count = 0;
  for (const Item& item : with_pair ? pair : single) {
    count += static_cast<int64_t>(item.ids.size());
  }
  return count;
}

void PostProcessor::special_around(std::vector<TokenId>& before,
                                   std::vector<TokenId>& after) const {
  bool seen = false;
  for (const Item& item : single) {
    seen = seen || item.kind == Item::Kind::first;
    std::vector<TokenId>& side = seen ? after : before;
    side.insert(side.end(), item.ids.begin(), item.ids.end());
  }
}

PostProcessor bert_postprocessor(int32_t cls, int32_t sep) {
  PostProcessor result;
  result.single = {special_item(cls, 0), {Item::Kind::first, 0, {}}, special_item(sep, 0)};
  result.pair = {special_item(cls, 0),
                 {Item::Kind::first, 0, {}},
                 special_item(sep, 0),
                 {Item::Kind::second, 1, {}},
                 special_item(sep, 1)};
  return result;
}

PostProcessor make_postprocessor(const Json& json) {
  const std::string type = json.string("type");
  if (type == "BertProcessing") {
    return bert_postprocessor(token_pair(json.at("cls")), token_pair(json.at("sep")));
  }
  if (type == "RobertaProcessing") {
    return roberta(json);
  }
  if (type == "Sequence") {
    return sequence(json);
  }
  PostProcessor result;
  if (type == "ByteLevel") {
    result.trim_offsets = json.boolean_or("trim_offsets", true);
    result.add_prefix_space = json.boolean_or("add_prefix_space", true);
    return result;
  }
  if (type == "TemplateProcessing") {
    result.single = read_template(json, "single");
    result.pair = read_template(json, "pair");
    return result;
  }
  json.at("type").refuse("is not known here");
}

void truncate(Encoding& first, Encoding* second, int64_t special, const Truncation& options) {
  check(options.max_length >= 0, "tokenize", "truncation to {} tokens makes no sense",
        options.max_length);
  const int64_t room = std::max<int64_t>(options.max_length - special, 0);
  auto a = static_cast<int64_t>(first.ids.size());
  auto b = second != nullptr ? static_cast<int64_t>(second->ids.size()) : 0;
  if (a + b <= room) {
    return;
  }
  using Strategy = Truncation::Strategy;
  if (second == nullptr || options.strategy == Strategy::only_first) {
    cut(first, room - b, options.side);
    return;
  }
  if (options.strategy == Strategy::only_second) {
    cut(*second, room - a, options.side);
    return;
  }
  // The longer one is cut down to the shorter first; then both lose, the second one last.
  const bool swapped = a > b;
  int64_t small = std::min(a, b);
  int64_t large = small > room ? small : std::max(small, room - small);
  if (small + large > room) {
    small = room / 2;
    large = small + room % 2;
  }
  a = swapped ? large : small;
  b = swapped ? small : large;
  cut(first, a, options.side);
  cut(*second, b, options.side);
}

void pad(Encoding& encoding, int64_t length, const Padding& options) {
  const auto size = static_cast<int64_t>(encoding.ids.size());
  if (size >= length) {
    return;
  }
  const auto count = static_cast<size_t>(length - size);
  const auto fill = [&](auto& values, const auto& value) {
    values.insert(options.side == Side::left ? values.begin() : values.end(), count, value);
  };
  fill(encoding.ids, options.id);
  fill(encoding.tokens, options.token);
  fill(encoding.offsets, TextSpan{});
  fill(encoding.type_ids, options.type_id);
  fill(encoding.attention_mask, 0);
  fill(encoding.special_tokens_mask, 1);
}

}  // namespace heed::text
