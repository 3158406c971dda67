// Fault table, lines 1 to 18: each a file made by hand. The number is in the test's name.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "heed/io.h"
#include "heed/runtime.h"
#include "support/budget.h"
#include "support/data.h"
#include "support/error.h"
#include "support/faults.h"

namespace heed {
namespace {

class SafetensorsFaults : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& bytes, const std::string& name = "m.safetensors") {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  static std::string file(const std::string& header, size_t data_bytes) {
    const uint64_t length = header.size();
    std::string bytes(reinterpret_cast<const char*>(&length), 8);
    return bytes + header + std::string(data_bytes, '\0');
  }
  static std::string entry(const std::string& name, const std::string& dtype,
                           const std::string& shape, const std::string& offsets) {
    return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape,
                       offsets);
  }
  /// Reading gives a data error that names the file and holds `part`, in under a second.
  void refused(const std::string& bytes, const std::string& part) {
    test::expect_bad_file(write(bytes), part, [](const auto& path) { load_safetensors(path); });
  }
  test::TemporaryFolder folder_;
};

TEST_F(SafetensorsFaults, F01_UnderEightBytes) {
  refused("", "at least 8");
  refused("1234567", "at least 8");
}

TEST_F(SafetensorsFaults, F02_HugeHeaderLength) {
  refused(std::string(8, '\xff') + "{}", "over the limit");
  const uint64_t length = 100'000'001;
  refused(std::string(reinterpret_cast<const char*>(&length), 8) + "{}", "over the limit");
}

TEST_F(SafetensorsFaults, F03_HeaderLongerThanFile) {
  const uint64_t length = 3;
  refused(std::string(reinterpret_cast<const char*>(&length), 8) + "{}", "more than the file's");
}

TEST_F(SafetensorsFaults, F04_BadText) {
  refused(file("{\"\xff\":1}", 0), "not valid JSON");
  refused(file("{\"a\":", 0), "not valid JSON");
  refused(file("", 0), "does not start");
  refused(file(" {}", 0), "does not start");
  refused(file("{} x", 0), "not valid JSON");
  refused(file("{}{}", 0), "not valid JSON");
  refused(file(std::string("{}\0", 3), 0), "not valid JSON");
  refused(file("[]", 0), "does not start");
  refused(file("{\"a\":[]}", 0), "not expected");
  refused(file("{\"a\":3}", 0), "not expected");
  refused(file("{\"a\":null}", 0), "not expected");
  refused(file("{\"a\":{}}", 0), "are required");
  refused(file(R"({"a":{"dtype":"F32","shape":[1]}})", 4), "are required");
  refused(file(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4),
          "unknown field");
  refused(file(R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,4]}})", 4), "not expected");
  refused(file(R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4), "not expected");
  refused(file(R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4), "nested");
  refused(file(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4), "two numbers");
  refused(file(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}})", 4), "two numbers");
  refused(file(std::string(1'000'000, '{'), 0), "nested");
}

TEST_F(SafetensorsFaults, F05_DuplicateKey) {
  refused(
      file("{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("a", "U8", "[1]", "[1,2]") + "}",
           2),
      "duplicate");
  refused(file(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
          "duplicate");
  refused(file(R"({"__metadata__":{"a":"1","a":"2"}})", 0), "duplicate");
  refused(file(R"({"__metadata__":{},"__metadata__":{}})", 0), "duplicate");
}

TEST_F(SafetensorsFaults, F06_Overlap) {
  refused(
      file("{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("b", "U8", "[4]", "[2,6]") + "}",
           6),
      "inside the one before");
  refused(
      file("{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("b", "U8", "[4]", "[0,4]") + "}",
           4),
      "inside the one before");
}

TEST_F(SafetensorsFaults, F07_HoleOrTrailingBytes) {
  refused(
      file("{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("b", "U8", "[4]", "[5,9]") + "}",
           9),
      "unused bytes");
  refused(file("{" + entry("a", "U8", "[4]", "[1,5]") + "}", 5), "unused bytes");
  refused(file("{" + entry("a", "U8", "[4]", "[0,4]") + "}", 5), "of which the tensors use 4");
  refused(file("{" + entry("a", "U8", "[4]", "[0,4]") + "}", 3), "the file holds 3");
  refused(file("{}", 1), "of which the tensors use 0");
}

TEST_F(SafetensorsFaults, F08_BadOffsets) {
  refused(file("{" + entry("a", "U8", "[1]", "[1,0]") + "}", 1), "reversed");
  refused(file("{" + entry("a", "U8", "[1]", "[-1,0]") + "}", 1), "negative");
  refused(file("{" + entry("a", "U8", "[1]", "[0,1.0]") + "}", 1), "not a 64-bit whole number");
  refused(file("{" + entry("a", "U8", "[1]", "[0,1e0]") + "}", 1), "not a 64-bit whole number");
  refused(file("{" + entry("a", "U8", "[1]", "[0,18446744073709551616]") + "}", 1),
          "not a 64-bit whole number");
  refused(file("{" + entry("a", "U8", "[1]", "[0,18446744073709551615]") + "}", 1),
          "takes 1 bytes");
  refused(file("{" + entry("a", "U8", "[-1]", "[0,1]") + "}", 1), "negative");
}

TEST_F(SafetensorsFaults, F09_ShapeOverflows) {
  refused(file("{" + entry("a", "U8", "[4294967296,4294967296]", "[0,0]") + "}", 0), "overflows");
  refused(file("{" + entry("a", "F64", "[576460752303423488,4]", "[0,0]") + "}", 0), "overflows");
  refused(file("{" + entry("a", "U8", "[9223372036854775808]", "[0,0]") + "}", 0), "too large");
  refused(file("{" + entry("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") + "}", 1), "dimensions");
}

TEST_F(SafetensorsFaults, F10_ShapeTimesTypeIsNotTheBytes) {
  refused(file("{" + entry("a", "F32", "[2]", "[0,4]") + "}", 4), "takes 8 bytes");
  refused(file("{" + entry("a", "F32", "[]", "[0,8]") + "}", 8), "takes 4 bytes");
}

TEST_F(SafetensorsFaults, F11_UnknownType) {
  refused(file("{" + entry("a", "F8_E4M3", "[1]", "[0,1]") + "}", 1), "F8_E4M3");
  refused(file("{" + entry("a", "f32", "[1]", "[0,4]") + "}", 4), "not supported");
}

TEST_F(SafetensorsFaults, F12_IntegersThatHeedDoesNotHaveAreWidened) {
  std::string bytes =
      file("{" + entry("a", "I8", "[2]", "[0,2]") + "," + entry("b", "U16", "[1]", "[2,4]") + "," +
               entry("c", "U32", "[1]", "[4,8]") + "," + entry("d", "I16", "[1]", "[8,10]") + "}",
           0);
  bytes += std::string("\xff\x7f\xff\xff\xff\xff\xff\xff\xfe\xff", 10);
  const TensorMap tensors = load_safetensors(write(bytes));
  EXPECT_EQ(tensors.at("a").to_vector<int32_t>(), (std::vector<int32_t>{-1, 127}));
  EXPECT_EQ(tensors.at("b").item(), 65535);
  EXPECT_EQ(tensors.at("c").item(), 4294967295.0);
  EXPECT_EQ(tensors.at("d").item(), -2);
  std::string flags = file("{" + entry("a", "BOOL", "[2]", "[0,2]") + "}", 0);
  refused(flags + "\x01\x02", "neither 0 nor 1");
}

TEST_F(SafetensorsFaults, F13_ScalarsAndEmptyShapesAreAccepted) {
  const TensorMap tensors = load_safetensors(write(
      file("{" + entry("a", "F32", "[]", "[0,4]") + "," + entry("b", "F32", "[2,0]", "[4,4]") +
               "," + entry("c", "U8", "[0,576460752303423488,16]", "[4,4]") + "}",
           4)));
  EXPECT_EQ(tensors.at("a").shape(), Shape());
  EXPECT_EQ(tensors.at("a").item(), 0.0);
  EXPECT_EQ(tensors.at("b").shape(), Shape({2, 0}));
  EXPECT_EQ(tensors.at("b").numel(), 0);
  EXPECT_EQ(tensors.at("c").numel(), 0);
  EXPECT_TRUE(load_safetensors(write(file("{}", 0))).empty());
}

TEST_F(SafetensorsFaults, MisalignedDataIsCopied) {
  for (const size_t padding : {0, 1, 2, 3, 5}) {
    std::string bytes =
        file("{" + entry("a", "F64", "[2]", "[0,16]") + "}" + std::string(padding, ' '), 0);
    const double values[2] = {1.25, -3.5};
    bytes.append(reinterpret_cast<const char*>(values), 16);
    EXPECT_EQ(load_safetensors(write(bytes)).at("a").to_vector<double>(),
              (std::vector<double>{1.25, -3.5}));
  }
}

TEST_F(SafetensorsFaults, F14_MetadataThatIsNoString) {
  refused(file(R"({"__metadata__":{"a":1}})", 0), "not expected");
  refused(file(R"({"__metadata__":{"a":null}})", 0), "not expected");
  refused(file(R"({"__metadata__":{"a":{}}})", 0), "not expected");
  refused(file(R"({"__metadata__":[]})", 0), "not expected");
  refused(file(R"({"__metadata__":"x"})", 0), "not expected");
}

/// Peak resident memory since the last call to clear_peak().
int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) {
      return std::stoll(line.substr(6)) * 1024;
    }
  }
  return 0;
}
void clear_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

TEST_F(SafetensorsFaults, F15_TenMillionEntries) {
  std::string zero_sized = "{";
  std::string metadata = R"({"__metadata__":{)";
  std::string numbers = R"({"a":{"dtype":"U8","shape":[0)";
  for (int i = 0; i < 10'000'000; ++i) {
    if (i < 1'500'000) {
      zero_sized += entry(std::to_string(i), "U8", "[0]", "[0,0]") + ",";
    }
    metadata += "\"\":\"\",";
    numbers += ",0";
  }
  const std::string one_name = "{\"" + std::string(99'000'000, 'x') + "\":1}";
  const std::string one_number = "{\"a\":" + std::string(99'000'000, '1') + "}";
  const std::pair<std::string*, const char*> cases[] = {
      {&zero_sized, "more than"}, {&metadata, "more than"}, {&numbers, "more than"}};
  for (const auto& [header, part] : cases) {
    clear_peak();
    const std::string bytes = file(*header + "}", 0);
    const int64_t before = peak_bytes();
    refused(bytes, part);
    EXPECT_LT(peak_bytes() - before, test::budget(static_cast<int64_t>(bytes.size()) + (64 << 20)));
  }
  refused(file(one_name, 0), "a string or number of");
  refused(file(one_number, 0), "a string or number of");
}

TEST_F(SafetensorsFaults, F16_ShardsOutsideTheFolder) {
  const std::string shard = file("{" + entry("a", "U8", "[1]", "[0,1]") + "}", 1);
  std::filesystem::create_directory(folder_ / "model");
  write(shard, "outside.safetensors");
  std::filesystem::create_symlink(folder_ / "outside.safetensors",
                                  folder_ / "model/link.safetensors");
  std::filesystem::create_directory_symlink(folder_.path(), folder_ / "model/up");
  const std::string outside = (folder_ / "outside.safetensors").string();
  for (const std::string& name :
       {std::string("../outside.safetensors"), outside, std::string("link.safetensors"),
        std::string("up/outside.safetensors"), std::string("x/../../outside.safetensors"),
        std::string(""), std::string("..")}) {
    write(R"({"weight_map":{"a":")" + name + "\"}}", "model/model.safetensors.index.json");
    try {
      load_weights(folder_ / "model");
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      EXPECT_NE(std::string(error.what()).find("weight_map: shard"), std::string::npos)
          << error.what();
    }
  }
  write(shard, "model/inside.safetensors");
  write(R"({"weight_map":{"a":"inside.safetensors"}})", "model/model.safetensors.index.json");
  EXPECT_EQ(load_weights(folder_ / "model").size(), 1u);
}

TEST_F(SafetensorsFaults, F16_TheDownloadCachesOwnLinksAreFollowed) {
  std::filesystem::create_directories(folder_ / "hub/snapshots/abc");
  std::filesystem::create_directories(folder_ / "hub/blobs");
  write(file("{" + entry("a", "U8", "[1]", "[0,1]") + "}", 1), "hub/blobs/123");
  std::filesystem::create_symlink("../../blobs/123", folder_ / "hub/snapshots/abc/m-1.safetensors");
  write(R"({"weight_map":{"a":"m-1.safetensors"}})",
        "hub/snapshots/abc/model.safetensors.index.json");
  EXPECT_EQ(load_weights(folder_ / "hub/snapshots/abc").size(), 1u);
}

TEST_F(SafetensorsFaults, F17_MissingShardOrAKeyInTwo) {
  const auto fails_with = [&](const std::string& index, const std::string& part) {
    write(index, "model.safetensors.index.json");
    try {
      load_weights(folder_.path());
      ADD_FAILURE() << index;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  write(file("{" + entry("a", "U8", "[1]", "[0,1]") + "}", 1), "1.safetensors");
  write(file("{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("b", "U8", "[1]", "[1,2]") + "}",
             2),
        "2.safetensors");
  fails_with(R"({"weight_map":{"a":"0.safetensors"}})", "is missing");
  fails_with(R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})",
             "in another shard as well");
  fails_with(R"({"weight_map":{"c":"1.safetensors"}})", "is missing");
  fails_with(R"({"weight_map":{"a":1}})", "weight_map.a is 1; expected a string");
  fails_with(R"({"weight_map":{"a":"1.safetensors","a":"2.safetensors"}})", "duplicate");
  fails_with(R"({"weight_map":[]})", "weight_map");
  fails_with(R"({"weight_map":)", "not valid JSON");
  fails_with("{}", "weight_map");
}

TEST_F(SafetensorsFaults, F18_CutWhileMapped) {
  const auto path = write(file("{" + entry("a", "U8", "[100000]", "[0,100000]") + "}", 100000));
  const TensorMap tensors = load_safetensors(path);
  EXPECT_NO_THROW(check_files_intact());
  ASSERT_EQ(truncate(path.c_str(), 5000), 0);
  double sum = 0;
  for (const uint8_t value : tensors.at("a").to_vector<uint8_t>()) {
    sum += value;
  }
  EXPECT_EQ(sum, 0);
  try {
    check_files_intact();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_NE(std::string(error.what()).find("was truncated from"), std::string::npos)
        << error.what();
  }
  // Grown again: the size is right, what was read is not.
  ASSERT_EQ(truncate(path.c_str(), 200000), 0);
  EXPECT_ERROR(check_files_intact(),
               "could not be read any more while in use (truncated, or a disk error)");
}

TEST_F(SafetensorsFaults, F18_ACutFileThatIsNoLongerMappedIsNoConcern) {
  const auto path = write(file("{" + entry("a", "U8", "[9000]", "[0,9000]") + "}", 9000));
  { const TensorMap tensors = load_safetensors(path); }
  ASSERT_EQ(truncate(path.c_str(), 10), 0);
  EXPECT_NO_THROW(check_files_intact());
}

TEST_F(SafetensorsFaults, F65_FoldersAndDevicesAreRefused) {
  EXPECT_ERROR(load_safetensors(folder_.path()), "is a folder; expected a file");
  EXPECT_ERROR(load_safetensors("/dev/zero"),
               "is not a regular file (a pipe or device cannot be mapped)");
  EXPECT_ERROR(load_safetensors(folder_ / "absent"), "cannot be opened: No such file or directory");
  EXPECT_ERROR(load_weights(folder_ / "absent"), "is not a folder");
  EXPECT_ERROR(load_weights(folder_.path()),
               "holds neither model.safetensors nor model.safetensors.index.json");
}

}  // namespace
}  // namespace heed
