// Fault table, lines 19 to 31, through `heed info FILE.gguf`.
#include "faults/bench.h"

namespace heed::test {
namespace {

/// The bytes of a GGUF file.
struct Gguf {
  std::string text;
  Gguf& u32(uint64_t value) {
    text += little_endian(value, 4);
    return *this;
  }
  Gguf& u64(uint64_t value) {
    text += little_endian(value, 8);
    return *this;
  }
  Gguf& string(const std::string& value) {
    u64(value.size());
    text += value;
    return *this;
  }
  Gguf& key(const std::string& name, uint64_t value) { return string(name).u32(4).u32(value); }
  Gguf& key(const std::string& name, const std::string& value) {
    return string(name).u32(8).string(value);
  }
  Gguf& tensor(const std::string& name, const std::vector<uint64_t>& sizes, uint64_t type,
               uint64_t offset) {
    string(name).u32(sizes.size());
    for (const uint64_t size : sizes) {
      u64(size);
    }
    return u32(type).u64(offset);
  }
  Gguf& data(size_t bytes) {
    text.append((32 - text.size() % 32) % 32 + bytes, '\0');
    return *this;
  }
};

Gguf start(uint64_t tensors, uint64_t values, uint64_t version = 3) {
  return Gguf{"GGUF"}.u32(version).u64(tensors).u64(values);
}

void bad(Bench& bench, const Gguf& file, const std::vector<std::string>& words) {
  std::vector<std::string> all = {"bad.gguf"};
  all.insert(all.end(), words.begin(), words.end());
  bench.refused({"info", bench.file("bad.gguf", file.text)}, all, 3,
                static_cast<int64_t>(file.text.size()));
}

std::function<void(Bench&)> files(
    const std::vector<std::pair<Gguf, std::vector<std::string>>>& cases) {
  return [cases](Bench& bench) {
    for (const auto& [file, words] : cases) {
      bad(bench, file, words);
    }
  };
}

Gguf one_tensor(const std::vector<uint64_t>& sizes, uint64_t type, uint64_t offset, size_t bytes) {
  return start(1, 0).tensor("t", sizes, type, offset).data(bytes);
}

/// The metadata of a tiny llama, with one value replaced.
Gguf llama(const std::string& key, uint64_t value, uint64_t tensors = 0) {
  Gguf file = start(tensors, 9).key("general.architecture", "llama");
  const std::pair<const char*, uint64_t> values[] = {
      {"llama.block_count", 1},          {"llama.embedding_length", 8},
      {"llama.feed_forward_length", 16}, {"llama.attention.head_count", 2},
      {"llama.context_length", 16},      {"llama.vocab_size", 11},
      {"llama.rope.dimension_count", 4}};
  for (const auto& [name, usual] : values) {
    file.key(name, name == key ? value : usual);
  }
  return Gguf{file.string("llama.attention.layer_norm_rms_epsilon").u32(6).u32(0x3727c5ac).text};
}

}  // namespace

std::vector<Fault> gguf_faults() {
  const uint64_t high = uint64_t{1} << 63;
  const uint64_t all = ~uint64_t{0};
  return {
      {19, "bad magic, version or byte order",
       files({{Gguf{""}, {"magic"}},
              {Gguf{"GGML" + std::string(20, '\0')}, {"'GGUF'"}},
              {start(0, 0, 0), {"version 0"}},
              {start(0, 0, 1), {"version 1"}},
              {start(0, 0, 99), {"version 99"}},
              {start(0, 0, 0x03000000), {"big-endian"}}})},
      {20, "counts -1 or 2^63",
       files({{start(all, 0), {"tensors"}},
              {start(high, 0), {"tensors"}},
              {start(0, all), {"metadata values"}},
              {start(0, high), {"metadata values"}}})},
      {21, "string or array longer than the file",
       files({{start(0, 1).u64(all), {"a key takes"}},
              {start(0, 1).string("k").u32(8).u64(high), {"'k'"}},
              {start(0, 1).string("k").u32(9).u32(4).u64(all), {"'k'"}}})},
      {22, "empty or duplicate key, unknown type",
       files({{start(0, 1).key("", 1), {"'' cannot be a key"}},
              {start(0, 2).key("k", 1).key("k", 1), {"'k'"}},
              {start(0, 1).string("k").u32(77).u32(1), {"'k'"}}})},
      {23, "alignment 0, 3 or of the wrong type",
       files({{start(0, 1).key("general.alignment", 0), {"general.alignment"}},
              {start(0, 1).key("general.alignment", 3), {"general.alignment"}},
              {start(0, 1).key("general.alignment", "32"), {"general.alignment"}}})},
      {24, "more than 4 dimensions, negative dimension",
       files({{one_tensor({1, 1, 1, 1, 1}, 0, 0, 4), {"'t'"}},
              {one_tensor({all}, 0, 0, 4), {"'t'"}}})},
      {25, "element count overflows",
       files({{one_tensor({uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0, 4), {"'t'"}},
              {one_tensor({0, uint64_t{1} << 59, uint64_t{1} << 59}, 0, 0, 4), {"'t'"}}})},
      {26, "padding wraps", files({{one_tensor({4}, 0, all - 15, 16), {"'t'"}}})},
      {27, "tensor past the end", files({{one_tensor({64}, 0, 0, 16), {"'t'"}}})},
      {28, "duplicate or overlong tensor name",
       files({{start(2, 0).tensor("t", {4}, 0, 0).tensor("t", {4}, 0, 32).data(64), {"'t'"}},
              {start(1, 0).tensor(std::string(100, 'n'), {4}, 0, 0).data(32), {"nnn"}}})},
      {29, "row not a multiple of the block", files({{one_tensor({33}, 8, 0, 64), {"'t'"}}})},
      {30, "block_count 10^9",
       files({{llama("llama.block_count", 1'000'000'000), {"block_count"}}})},
      {31, "missing or misshapen tensor",
       files({{llama("", 0), {"token_embd.weight"}},
              // One that has another width than the metadata say.
              {llama("", 0, 1).tensor("token_embd.weight", {4, 11}, 0, 0).data(4 * 4 * 11),
               {"'token_embd.weight' is [11, 4]", "missing: blk.0.attn_norm.weight [8]"}}})},
  };
}

}  // namespace heed::test
