// The products of one pass of a GPT-2-124M-shaped model, by weight type: bytes of weights a second
// against the machine's read bandwidth in the same run for few rows (decoding), and the rate of
// multiply-adds against f32 for many (prefill).
#include <cmath>
#include <cstring>
#include <memory>

#include "alternate.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/convert.h"
#include "kernels/gemm.h"
#include "kernels/quantize.h"

namespace {

using heed::bench::Contestant;
using heed::kernels::Element;
using heed::kernels::Matrix;

struct Sizes {
  int64_t out, in;
};
constexpr int64_t kLayers = 12;
constexpr int64_t kVocabulary = 50257;
constexpr Sizes kLayer[] = {{2304, 768}, {768, 768}, {3072, 768}, {768, 3072}};

const char* name_of(Element type) {
  switch (type) {
    case Element::f16:
      return "f16";
    case Element::bf16:
      return "bf16";
    case Element::q8_0:
      return "q8_0";
    case Element::q4_0:
      return "q4_0";
    default:
      return "f32";
  }
}

int64_t bytes_of(Element type, int64_t count) {
  if (heed::kernels::is_quantized(type)) {
    const heed::kernels::BlockSize block = heed::kernels::block_size(type);
    return count / block.weights * block.bytes;
  }
  return count * heed::kernels::element_size(type);
}

/// All weight matrices of the model, one after the other, [out, in] each.
class Weights {
 public:
  explicit Weights(Element type) : type_(type) {
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      for (const Sizes& e : kLayer) {
        add(e);
      }
    }
    add({kVocabulary, 768});
    memory_.reset(static_cast<char*>(std::aligned_alloc(4096, (bytes_ + 4095) / 4096 * 4096)));
    int64_t at = 0;
    for (const Sizes& e : all_) {
      fill(e, memory_.get() + at);
      at += bytes_of(type_, e.out * e.in);
    }
  }
  size_t bytes() const { return bytes_; }
  int64_t weights() const { return weights_; }

  /// y = x · Wᵀ for every matrix, the last (to the vocabulary) for one row only.
  void multiply(int64_t rows, const float* x, float* y) const {
    int64_t at = 0;
    for (const Sizes& e : all_) {
      const Matrix a{x, Element::f32, e.in, 1};
      const Matrix b{memory_.get() + at, type_, 1, e.in};
      const int64_t m = e.out == kVocabulary && rows > 64 ? 1 : rows;
      heed::kernels::gemm(
          {.m = m, .n = e.out, .k = e.in, .a = a, .b = b, .c = y, .c_stride = e.out});
      at += bytes_of(type_, e.out * e.in);
    }
  }

 private:
  void add(Sizes e) {
    all_.push_back(e);
    bytes_ += static_cast<size_t>(bytes_of(type_, e.out * e.in));
    weights_ += e.out * e.in;
  }
  void fill(Sizes e, char* to) const {
    heed::parallel_for(e.out, [&](int64_t row) {
      std::vector<float> values(static_cast<size_t>(e.in));
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = std::sin(static_cast<float>(i + 7 * static_cast<size_t>(row)));
      }
      char* line = to + bytes_of(type_, row * e.in);
      switch (type_) {
        case Element::f16:
          heed::kernels::convert(reinterpret_cast<heed::Half*>(line), values.data(), e.in);
          break;
        case Element::bf16:
          heed::kernels::convert(reinterpret_cast<heed::BFloat16*>(line), values.data(), e.in);
          break;
        case Element::q8_0:
        case Element::q4_0:
          heed::kernels::quantize(type_, values.data(), line, e.in);
          break;
        default:
          std::memcpy(line, values.data(), values.size() * sizeof(float));
      }
    });
  }

  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  Element type_;
  std::vector<Sizes> all_;
  size_t bytes_ = 0;
  int64_t weights_ = 0;
  std::unique_ptr<char, Free> memory_;
};

/// Reads memory once, on all threads.
uint64_t read_all(const std::vector<uint64_t>& memory) {
  constexpr int64_t kTile = int64_t{1} << 16;
  std::vector<uint64_t> sums((memory.size() + kTile - 1) / kTile);
  heed::parallel_ranges(static_cast<int64_t>(memory.size()), kTile,
                        [&](int64_t begin, int64_t end) {
                          uint64_t sum[8] = {};
                          for (int64_t i = begin; i + 8 <= end; i += 8) {
                            for (int64_t j = 0; j < 8; ++j) {
                              sum[j] ^= memory[static_cast<size_t>(i + j)];
                            }
                          }
                          for (const uint64_t one : sum) {
                            sums[static_cast<size_t>(begin / kTile)] ^= one;
                          }
                        });
  uint64_t all = 0;
  for (const uint64_t one : sums) {
    all ^= one;
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<Element> types{Element::f32, Element::f16, Element::bf16, Element::q8_0,
                                   Element::q4_0};
  std::vector<std::unique_ptr<Weights>> weights;
  for (const Element type : types) {
    weights.push_back(std::make_unique<Weights>(type));
  }
  const heed::Scratch<float> x(512 * 3072);  // on whole cache lines, as tensors are
  for (int64_t i = 0; i < 512 * 3072; ++i) {
    x.data()[i] = std::cos(static_cast<float>(i));
  }
  const heed::Scratch<float> y(std::max<int64_t>(512 * 3072, 32 * kVocabulary));
  const std::vector<uint64_t> memory(size_t{1} << 26, 1);
  uint64_t sink = 0;
  std::printf("%d threads, %.0f million weights\n", heed::thread_count(),
              static_cast<double>(weights.front()->weights()) * 1e-6);
  for (const int64_t rows : {1, 2, 4, 8, 16, 32, 512}) {
    if (argc > 1 && std::stoll(argv[1]) != rows) {
      continue;
    }
    std::vector<Contestant> all;
    all.push_back({"read", [&] { sink ^= read_all(memory); }});
    for (const auto& each : weights) {
      all.push_back({"", [&, rows] { each->multiply(rows, x.data(), y.data()); }});
    }
    heed::bench::alternate(all, rows > 64 ? 3 : 7);
    const double bandwidth = static_cast<double>(memory.size() * 8) / all[0].median();
    std::printf("%3ld rows (read bandwidth %.1f GB/s):\n", rows, bandwidth * 1e-9);
    for (size_t i = 0; i < types.size(); ++i) {
      const double time = all[i + 1].median();
      const double rate = static_cast<double>(weights[i]->bytes()) / time;
      std::printf(
          "  %-5s %8.2f ms  %6.1f rows/s  %5.1f GB/s of weights  share %.2f  %7.1f GMAC/s  [%.2fx "
          "f32]\n",
          name_of(types[i]), time * 1e3, static_cast<double>(rows) / time, rate * 1e-9,
          rate / bandwidth,
          static_cast<double>(weights[i]->weights()) * static_cast<double>(rows) / time * 1e-9,
          all[1].median() / time);
    }
    std::fflush(stdout);
  }
  return sink == 1 ? 1 : 0;
}
