// Fault table, lines 19 to 30: each a file made by hand. The number is in the test's name.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "heed/runtime.h"
#include "io/gguf.h"
#include "support/data.h"
#include "support/error.h"
#include "support/faults.h"

namespace heed {
namespace {

/// The bytes of a GGUF file, piece by piece.
struct Bytes {
  std::string text;
  template <class T>
  Bytes& number(T value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& u32(uint32_t value) { return number(value); }
  Bytes& u64(uint64_t value) { return number(value); }
  Bytes& string(const std::string& value) {
    u64(value.size());
    text += value;
    return *this;
  }
  Bytes& zeros(size_t count) {
    text.append(count, '\0');
    return *this;
  }
  Bytes& align(size_t step = 32) { return zeros((step - text.size() % step) % step); }
  Bytes& tensor(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type,
                uint64_t offset) {
    string(name).u32(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) {
      u64(dim);
    }
    return u32(type).u64(offset);
  }
};

Bytes start(uint64_t tensors, uint64_t values, uint32_t version = 3) {
  Bytes bytes;
  bytes.text = "GGUF";
  return bytes.u32(version).u64(tensors).u64(values);
}

class GgufFaults : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& bytes) {
    std::ofstream(folder_ / "m.gguf", std::ios::binary) << bytes;
    return folder_ / "m.gguf";
  }
  void refused(const Bytes& bytes, const std::string& part) {
    test::expect_bad_file(write(bytes.text), part,
                          [](const auto& path) { const GgufFile file(path); });
  }
  test::TemporaryFolder folder_;
};

TEST_F(GgufFaults, F19_MagicVersionAndByteOrder) {
  refused({""}, "the magic");
  refused({"GGU"}, "the magic");
  refused({"GGML" + std::string(20, '\0')}, "does not start with");
  refused({"FUGG" + std::string(20, '\0')}, "does not start with");
  refused(start(0, 0, 0), "version 0");
  refused(start(0, 0, 1), "version 1");
  refused(start(0, 0, 4), "version 4");
  refused(start(0, 0, 0x03000000), "big-endian");
  EXPECT_NO_THROW(GgufFile(write(start(0, 0, 3).text)));
  EXPECT_NO_THROW(GgufFile(write(start(0, 0, 2).text)));
}

TEST_F(GgufFaults, F20_Counts) {
  for (const uint64_t count : {~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 40}) {
    refused(start(count, 0), "tensors; at most");
    refused(start(0, count), "metadata values; at most");
  }
  refused(start(0, 1), "a key takes");
  refused(start(1, 0), "name takes");
}

TEST_F(GgufFaults, F21_StringOrArrayLongerThanTheFile) {
  for (const uint64_t length : {uint64_t{100}, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{7}}) {
    refused(start(0, 1).u64(length).zeros(16), "a key takes");
    refused(start(0, 1).string("k").u32(8).u64(length).zeros(16), "'k' takes");
    refused(start(0, 1).string("k").u32(9).u32(4).u64(length).zeros(16), "elements; the file has");
    refused(start(0, 1).string("k").u32(9).u32(0).u64(length).zeros(16), "elements; the file has");
    refused(start(0, 1).string("k").u32(9).u32(8).u64(length).zeros(16), "strings; the file has");
  }
  refused(start(0, 1).string("k").u32(9).u32(8).u64(2).u64(3).zeros(8), "takes");
}

TEST_F(GgufFaults, F22_KeysAndTypes) {
  refused(start(0, 1).string("").u32(4).u32(1), "cannot be a key");
  refused(start(0, 1).string("\xff").u32(4).u32(1), "cannot be a key");
  refused(start(0, 1).string(std::string(70000, 'k')).u32(4).u32(1), "cannot be a key");
  refused(start(0, 2).string("k").u32(4).u32(1).string("k").u32(4).u32(1), "'k' is there twice");
  refused(start(0, 1).string("k").u32(13).u32(1), "unknown type 13");
  refused(start(0, 1).string("k").u32(0xffffffff).u32(1), "unknown type");
  refused(start(0, 1).string("k").u32(9).u32(9).u64(1).u32(4).u64(1).u32(1), "nested");
  refused(start(0, 1).string("k").u32(7).zeros(0).number(uint8_t{2}), "neither 0 nor 1");
}

TEST_F(GgufFaults, F23_Alignment) {
  refused(start(0, 1).string("general.alignment").u32(4).u32(0), "power of two");
  refused(start(0, 1).string("general.alignment").u32(4).u32(3), "power of two");
  refused(start(0, 1).string("general.alignment").u32(10).u64(32), "not of type u32");
  refused(start(0, 1).string("general.alignment").u32(8).string("32"), "not of type u32");
  refused(start(0, 1).string("general.alignment").u32(9).u32(4).u64(0), "not of type u32");
  refused(
      start(1, 1).string("general.alignment").u32(4).u32(1u << 31).tensor("t", {1}, 0, 0).zeros(99),
      "past the end");
  // A small alignment is legal; what lies misaligned is copied.
  Bytes bytes = start(1, 1).string("general.alignment").u32(4).u32(1).tensor("t", {1}, 0, 1);
  bytes.zeros(1).number(2.5f);
  EXPECT_EQ(GgufFile(write(bytes.text)).tensors().at("t").item(), 2.5);
}

TEST_F(GgufFaults, F24_Axes) {
  refused(start(1, 0).tensor("t", {1, 1, 1, 1, 1}, 0, 0).align().zeros(32), "5 axes");
  refused(start(1, 0).string("t").u32(0xffffffff).zeros(64), "axes");
  refused(start(1, 0).tensor("t", {~uint64_t{0}}, 0, 0).align().zeros(32), "dimension -1");
  refused(start(1, 0).tensor("t", {uint64_t{1} << 63}, 0, 0).align().zeros(32),
          "negative or too large");
}

TEST_F(GgufFaults, F25_ElementCountOverflows) {
  const uint64_t big = uint64_t{1} << 32;
  refused(start(1, 0).tensor("t", {big, big}, 0, 0).align().zeros(32), "overflow");
  refused(start(1, 0).tensor("t", {uint64_t{1} << 59, 2, 2}, 0, 0).align().zeros(32), "overflow");
  const uint64_t huge = uint64_t{1} << 59;  // a zero before, between or after does not help
  refused(start(1, 0).tensor("t", {0, huge, huge}, 0, 0).align().zeros(32), "overflow");
  refused(start(1, 0).tensor("t", {huge, 0, huge}, 12, 0).align().zeros(32), "overflow");
  refused(start(1, 0).tensor("t", {huge, huge, 0}, 8, 0).align().zeros(32), "overflow");
  refused(start(1, 0).tensor("t", {uint64_t{1} << 59}, 28, 0).align().zeros(32), "past the end");
}

TEST_F(GgufFaults, F26_PaddingWraps) {
  refused(start(1, 0).tensor("t", {1}, 0, ~uint64_t{31}).align().zeros(32), "past the end");
  refused(start(1, 0).tensor("t", {8}, 0, ~uint64_t{0} - 3).align().zeros(32), "no multiple of 32");
  refused(start(1, 0).tensor("t", {1}, 0, 4).align().zeros(32), "no multiple of 32");
}

TEST_F(GgufFaults, F27_PastTheEnd) {
  refused(start(1, 0).tensor("t", {9}, 0, 0).align().zeros(32), "past the end");
  refused(start(1, 0).tensor("t", {8}, 0, 32).align().zeros(32), "past the end");
  refused(start(1, 0).tensor("t", {8}, 0, 0), "past the end");
  refused(start(2, 0).tensor("a", {16}, 0, 0).tensor("b", {8}, 0, 32).align().zeros(64),
          "overlaps");
  EXPECT_EQ(
      GgufFile(write(start(1, 0).tensor("t", {8}, 0, 0).align().zeros(32).text)).tensors().size(),
      1u);
}

TEST_F(GgufFaults, F28_Names) {
  refused(start(2, 0).tensor("t", {1}, 0, 0).tensor("t", {1}, 0, 32).align().zeros(64),
          "there twice");
  refused(start(1, 0).tensor(std::string(64, 'n'), {1}, 0, 0).align().zeros(32), "cannot name");
  refused(start(1, 0).tensor("", {1}, 0, 0).align().zeros(32), "cannot name");
  refused(start(1, 0).tensor("\xff", {1}, 0, 0).align().zeros(32), "cannot name");
}

TEST_F(GgufFaults, F29_RowsAndTypes) {
  refused(start(1, 0).tensor("t", {33}, 8, 0).align().zeros(96), "no multiple of q8_0's block");
  refused(start(1, 0).tensor("t", {16, 2}, 2, 0).align().zeros(96), "no multiple of q4_0's block");
  refused(start(1, 0).tensor("t", {}, 8, 0).align().zeros(96), "no multiple");
  for (const auto& [number, name, bytes] :
       {std::tuple{10, "q2_k", 84}, std::tuple{11, "q3_k", 110}, std::tuple{12, "q4_k", 144},
        std::tuple{13, "q5_k", 176}, std::tuple{14, "q6_k", 210}, std::tuple{16, "iq2_xxs", 66},
        std::tuple{17, "iq2_xs", 74}, std::tuple{18, "iq3_xxs", 98}, std::tuple{19, "iq1_s", 50},
        std::tuple{21, "iq3_s", 110}, std::tuple{22, "iq2_s", 82}, std::tuple{23, "iq4_xs", 136},
        std::tuple{29, "iq1_m", 56}, std::tuple{34, "tq1_0", 54}, std::tuple{35, "tq2_0", 66}}) {
    const auto type = static_cast<uint32_t>(number);
    const auto size = static_cast<size_t>(bytes);
    refused(start(1, 0).tensor("t", {128, 2}, type, 0).align().zeros(512),
            std::string("no multiple of ") + name + "'s block of 256");
    refused(start(1, 0).tensor("t", {256, 2}, type, 0).align().zeros(2 * size - 1), "past the end");
    const GgufFile file(
        write(start(1, 0).tensor("t", {256, 2}, type, 0).align().zeros(2 * size).text));
    EXPECT_EQ(name_of(file.tensors().at("t").dtype()), name);
  }
  for (const auto& [number, name] :
       {std::pair{3, "q4_1"}, std::pair{6, "q5_0"}, std::pair{7, "q5_1"}, std::pair{20, "iq4_nl"},
        std::pair{39, "mxfp4"}}) {
    refused(start(1, 0).tensor("t", {48}, static_cast<uint32_t>(number), 0).align().zeros(96),
            std::string("no multiple of ") + name + "'s block of 32");
  }
  refused(start(1, 0).tensor("t", {256}, 15, 0).align().zeros(512), "'t' is Q8_K");
  refused(start(1, 0).tensor("t", {256}, 4, 0).align().zeros(256), "unknown type 4");
  refused(start(1, 0).tensor("t", {256}, 99, 0).align().zeros(256), "unknown type 99");
}

TEST_F(GgufFaults, F30_ValuesOutOfRangeAndOfTheWrongType) {
  Bytes bytes = start(0, 5).string("block_count").u32(4).u32(1'000'000'000);
  bytes.string("negative").u32(5).number(int32_t{-1});
  bytes.string("huge").u32(10).u64(~uint64_t{0});
  bytes.string("text").u32(8).string("abc");
  bytes.string("list").u32(9).u32(6).u64(1).number(0.5f);
  const GgufFile file(write(bytes.text));
  const auto fails_with = [&](auto&& fn, const std::string& part) {
    try {
      fn();
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      EXPECT_NE(std::string(error.what()).find(file.file() + ": " + part), std::string::npos)
          << error.what();
    }
  };
  fails_with([&] { file.integer("block_count", 1, 10000); }, "block_count is 1000000000; a whole");
  fails_with([&] { file.integer("negative", 1, 10000); }, "negative is -1; a whole");
  fails_with([&] { file.integer("huge", 1, 10000); }, "huge is 18446744073709551615; a whole");
  fails_with([&] { file.integer("text", 1, 10000); }, "text is a string; a whole");
  fails_with([&] { file.number("text", 0, 1); }, "text is a string; a number");
  fails_with([&] { file.number("huge", 0, 1); }, "huge is");
  fails_with([&] { file.string("block_count"); }, "block_count is no string");
  fails_with([&] { file.boolean("block_count"); }, "block_count is no bool");
  fails_with([&] { file.integer("list", 0, 1); }, "list is an array");
  fails_with([&] { file.integers("list", 0, 1); }, "list is 0.500000; a whole");
  fails_with([&] { file.strings("list"); }, "list is an array of numbers");
  fails_with([&] { file.strings("text"); }, "text is a single value");
  fails_with([&] { file.string("absent"); }, "absent is missing");
}

TEST_F(GgufFaults, EveryCutOfAGoodFileIsRefusedOrWhole) {
  Bytes bytes = start(1, 3).string("a").u32(8).string("value").string("b").u32(9).u32(8).u64(2);
  bytes.string("x").string("yz").string("c").u32(4).u32(7);
  bytes.tensor("t", {32, 2}, 8, 0).align().zeros(68);
  for (size_t length = 0; length < bytes.text.size(); ++length) {
    EXPECT_ERROR(GgufFile(write(bytes.text.substr(0, length))), "/m.gguf: ") << length;
  }
  EXPECT_NO_THROW(GgufFile(write(bytes.text)));
}

TEST_F(GgufFaults, CutWhileMapped) {
  const auto path = write(start(1, 0).tensor("t", {100000}, 0, 0).align().zeros(400000).text);
  const GgufFile file(path);
  ASSERT_EQ(truncate(path.c_str(), 4096), 0);
  EXPECT_EQ(file.tensors().at("t").to_vector<float>(), std::vector<float>(100000, 0.0f));
  EXPECT_ERROR(check_files_intact(), "was truncated from 400064 to 4096 bytes while in use");
}

}  // namespace
}  // namespace heed
