// NumPy's and MNIST's array files.
#include <gtest/gtest.h>

#include <fstream>

#include "base/file.h"
#include "heed/io.h"
#include "heed/runtime.h"
#include "io/gzip.h"
#include "support/data.h"
#include "support/error.h"
#include "support/gzip.h"

namespace heed {
namespace {

using test::gzipped;

class Arrays : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& bytes) {
    std::ofstream(folder_ / "x", std::ios::binary) << bytes;
    return folder_ / "x";
  }
  template <class Load>
  void refused(Load&& load, const std::string& bytes, const std::string& part) {
    const auto path = write(bytes);
    try {
      load(path);
      ADD_FAILURE() << "accepted; wanted an error with: " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      EXPECT_NE(std::string(error.what()).find(path.native()), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  test::TemporaryFolder folder_;
};

TEST_F(Arrays, NpyReadsWhatNumPyWrote) {
  const Tensor x = load_npy(test::golden("io/f32.npy"));
  EXPECT_EQ(x.shape(), Shape({2, 3}));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  const Tensor y = load_npy(test::golden("io/i64_fortran.npy"));
  EXPECT_EQ(y.shape(), Shape({2, 3}));
  EXPECT_EQ(y.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
}

TEST_F(Arrays, NpyWritesTheBytesThatNumPyWrites) {
  save_npy(folder_ / "a.npy", load_npy(test::golden("io/f32.npy")));
  EXPECT_EQ(read_file(folder_ / "a.npy"), read_file(test::golden("io/f32.npy")));
}

TEST_F(Arrays, NpyRoundTrip) {
  for (const DType type : {DType::f32, DType::f64, DType::f16, DType::i32, DType::i64, DType::u8}) {
    for (const Shape& shape : {Shape{6}, Shape{2, 3}, Shape{1, 6, 1}}) {
      const Tensor x = Tensor::arange(6, type).alias(shape, contiguous_strides(shape), 0);
      save_npy(folder_ / "a.npy", x);
      const Tensor back = load_npy(folder_ / "a.npy");
      EXPECT_EQ(back.dtype(), type);
      EXPECT_EQ(back.shape(), shape);
      EXPECT_EQ(back.to_doubles(), x.to_doubles());
    }
  }
  save_npy(folder_ / "a.npy", Tensor::scalar(2.5, DType::bf16));
  EXPECT_EQ(load_npy(folder_ / "a.npy").item(), 2.5);
  EXPECT_EQ(load_npy(folder_ / "a.npy").rank(), 0);
  save_npy(folder_ / "a.npy", Tensor::zeros({0, 3}, DType::boolean));
  EXPECT_EQ(load_npy(folder_ / "a.npy").shape(), Shape({0, 3}));
  EXPECT_ERROR(save_npy(folder_ / "a.npy", Tensor::zeros({32}, DType::q8_0)),
               "NumPy has no q8_0; dequantize() first");
}

TEST_F(Arrays, NpyRefusesWhatIsBroken) {
  const auto load = [](const auto& path) { return load_npy(path); };
  const std::string whole = read_file(test::golden("io/f32.npy"));
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_ERROR(load_npy(write(whole.substr(0, length))), "/x: ") << length;
  }
  refused(load, whole + "x", "takes 24 bytes");
  const auto with_header = [](const std::string& header, const std::string& data) {
    const auto length = static_cast<uint16_t>(header.size());
    return "\x93NUMPY" + std::string("\x01\x00", 2) +
           std::string(reinterpret_cast<const char*>(&length), 2) + header + data;
  };
  const std::string order = "'fortran_order': False, ";
  refused(load, with_header("{'descr': '>f4', " + order + "'shape': (1,), }", "1234"), ">f4");
  refused(load, with_header("{'descr': '|O', " + order + "'shape': (1,), }", "1234"), "|O");
  refused(load, with_header("{'descr': [('a', '<f4')], " + order + "'shape': (1,), }", "1234"),
          "elements");
  refused(load, with_header("{" + order + "'shape': (1,), }", "1234"), "no descr");
  refused(load, with_header("{'descr': '<f4', 'shape': (1,), }", "1234"), "no fortran_order");
  refused(load, with_header("{'descr': '<f4', " + order + "}", "1234"), "no shape");
  refused(load, with_header("{'descr': '<f4', " + order + "'shape': 1}", "1234"), "not a tuple");
  refused(load, with_header("{'descr': '<f4', " + order + "'shape': (-1,)}", "1234"),
          "whole numbers");
  refused(load, with_header("{'descr': '<f4', " + order + "'shape': (1,1,1,1,1,1,1,1,1)}", "1234"),
          "up to 8");
  refused(load, with_header("{'descr': '<f4', " + order + "'shape': (99999999999999999999,)}", ""),
          "too large");
  refused(load,
          with_header("{'descr': '<f4', " + order + "'shape': (999999999999, 999999999999)}", ""),
          "overflows");
  refused(load, with_header("{'descr': '|b1', " + order + "'shape': (1,)}", "\x02"),
          "neither 0 nor 1");
}

std::string idx(const std::string& head, const std::vector<uint32_t>& dims,
                const std::string& data) {
  std::string text = head;
  for (const uint32_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      text += static_cast<char>(dim >> shift);
    }
  }
  return text + data;
}

const std::string kBytes2D("\x00\x00\x08\x02", 4);
const std::string kInts1D("\x00\x00\x0c\x01", 4);

TEST_F(Arrays, IdxPlainAndGzipped) {
  const std::string text = idx(kBytes2D, {2, 3}, "abcdef");
  for (const std::string& bytes : {text, gzipped(text)}) {
    const Tensor x = load_idx(write(bytes));
    EXPECT_EQ(x.shape(), Shape({2, 3}));
    EXPECT_EQ(x.to_vector<uint8_t>(), (std::vector<uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
  }
  EXPECT_EQ(load_idx(write(idx(kInts1D, {1}, std::string("\xff\xff\xff\xfe", 4)))).item(), -2);
}

TEST_F(Arrays, IdxReadsMnist) {
  HEED_NEEDS_SHARED("mnist");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::shared_data("mnist"))) {
    const std::string name = entry.path().filename();
    if (name.find("idx") != std::string::npos) {
      const Tensor x = load_idx(entry.path());
      EXPECT_EQ(x.rank(), name.find("images") != std::string::npos ? 3 : 1) << name;
      ++files;
    }
  }
  EXPECT_GT(files, 0);
}

TEST_F(Arrays, IdxRefusesWhatIsBroken) {
  const auto load = [](const auto& path) { return load_idx(path); };
  refused(load, "", "not an IDX file");
  refused(load, "abcd", "not an IDX file");
  refused(load, std::string("\x00\x00\x0b\x01", 4), "IDX type 0x0b");
  refused(load, std::string("\x00\x00\x08\x00", 4), "dimensions");
  refused(load, std::string("\x00\x00\x08\xff", 4), "dimensions");
  refused(load, kBytes2D, "dimensions");
  refused(load, idx(kBytes2D, {0xffffffff, 0xffffffff}, ""), "elements");
  refused(load, idx(kBytes2D, {2, 3}, "abcde"), "takes 6 bytes");
  refused(load, idx(kBytes2D, {2, 3}, "abcdefg"), "takes 6 bytes");
  const std::string packed = gzipped(idx(kBytes2D, {2, 3}, "abcdef"));
  for (size_t length = 3; length < packed.size(); ++length) {
    refused(load, packed.substr(0, length), "corrupt or truncated gzip");
  }
  refused(load, packed + "junk", "after the end");
  std::string damaged = packed;
  damaged[packed.size() - 6] ^= 1;  // in the checksum
  refused(load, damaged, "corrupt or truncated gzip");
}

TEST_F(Arrays, GunzipStopsAtItsLimit) {
  const std::string packed = gzipped(std::string(10'000'000, 'x'));
  EXPECT_LT(packed.size(), 20'000u);
  EXPECT_ERROR(gunzip(packed, "f", 1'000'000), "decompresses to more than 1000000 bytes");
  EXPECT_EQ(gunzip(packed, "f", 10'000'000).size(), 10'000'000u);
  EXPECT_EQ(gunzip(packed + gzipped("y"), "f", 10'000'001).back(), 'y');
}

}  // namespace
}  // namespace heed
