// heed's linear() with bias, forward and both backward products, against the libraries' plain GEMM.
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#ifdef HEED_HAVE_OPENBLAS
#include <cblas.h>
#endif
#ifdef HEED_HAVE_DNNL
#include <dnnl.h>
#endif

#include "alternate.h"
#include "heed/runtime.h"
#include "kernels/convert.h"
#include "kernels/gemm.h"

namespace {

using heed::bench::Contestant;
using heed::kernels::Element;
using heed::kernels::Epilogue;
using heed::kernels::Matrix;

/// One product of a linear layer: C[m, n] = op(A) · op(B).
struct Product {
  const char* name;
  bool transpose_a, transpose_b, bias;
};
constexpr Product kProducts[] = {
    {"forward  x·Wᵀ + b", false, true, true},
    {"dx       dy·W    ", false, false, false},
    {"dW       dyᵀ·x   ", true, false, false},
};

/// BLIS's product by strides; loaded at run time, because its BLAS names are OpenBLAS's too.
using BlisSgemm = void (*)(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k,
                           const float* alpha, const float* a, int64_t row_a, int64_t column_a,
                           const float* b, int64_t row_b, int64_t column_b, const float* beta,
                           float* c, int64_t row_c, int64_t column_c);
BlisSgemm load_blis() {
  for (const char* path : {"/usr/lib/x86_64-linux-gnu/blis-openmp/libblis.so.4",
                           "/usr/lib/aarch64-linux-gnu/blis-openmp/libblis.so.4"}) {
    if (void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL); library != nullptr) {
      const auto set_threads =
          reinterpret_cast<void (*)(int64_t)>(dlsym(library, "bli_thread_set_num_threads"));
      if (set_threads != nullptr) {
        set_threads(heed::thread_count());
      }
      return reinterpret_cast<BlisSgemm>(dlsym(library, "bli_sgemm"));
    }
  }
  return nullptr;
}

void compare(int64_t m, int64_t n, int64_t k, const Product& p) {
  std::vector<float> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(n * k)),
      c(static_cast<size_t>(m * n)), bias(static_cast<size_t>(n), 0.5f);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = std::sin(static_cast<float>(i));
  }
  for (size_t i = 0; i < b.size(); ++i) {
    b[i] = std::cos(static_cast<float>(i));
  }
  const Matrix ma{a.data(), Element::f32, p.transpose_a ? 1 : k, p.transpose_a ? m : 1};
  const Matrix mb{b.data(), Element::f32, p.transpose_b ? 1 : n, p.transpose_b ? k : 1};
  Epilogue epilogue;
  epilogue.bias = p.bias ? bias.data() : nullptr;
  std::vector<Contestant> all;
  all.push_back({"heed", [&] {
                   heed::kernels::gemm({.m = m,
                                        .n = n,
                                        .k = k,
                                        .a = ma,
                                        .b = mb,
                                        .c = c.data(),
                                        .c_stride = n,
                                        .epilogue = epilogue});
                 }});
  // As training in bf16 multiplies: activations in bf16, weights in f32, sums in f32.
  std::vector<heed::BFloat16> short_a(a.size()), short_c(c.size()), short_bias(bias.size());
  heed::kernels::convert(short_a.data(), a.data(), m * k);
  heed::kernels::convert(short_bias.data(), bias.data(), n);
  const Matrix bf16_a{short_a.data(), Element::bf16, ma.row_stride, ma.column_stride};
  Epilogue bf16_epilogue;
  bf16_epilogue.bias = p.bias ? short_bias.data() : nullptr;
  all.push_back({"heed bf16", [&] {
                   heed::kernels::gemm({.m = m,
                                        .n = n,
                                        .k = k,
                                        .a = bf16_a,
                                        .b = mb,
                                        .c = short_c.data(),
                                        .c_type = Element::bf16,
                                        .c_stride = n,
                                        .epilogue = bf16_epilogue});
                 }});
#ifdef HEED_HAVE_OPENBLAS
  all.push_back({"OpenBLAS", [&] {
                   cblas_sgemm(CblasRowMajor, p.transpose_a ? CblasTrans : CblasNoTrans,
                               p.transpose_b ? CblasTrans : CblasNoTrans, static_cast<int>(m),
                               static_cast<int>(n), static_cast<int>(k), 1.0f, a.data(),
                               static_cast<int>(p.transpose_a ? m : k), b.data(),
                               static_cast<int>(p.transpose_b ? k : n), 0.0f, c.data(),
                               static_cast<int>(n));
                 }});
#endif
#ifdef HEED_HAVE_DNNL
  all.push_back({"oneDNN", [&] {
                   dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', m, n, k, 1.0f,
                              a.data(), p.transpose_a ? m : k, b.data(), p.transpose_b ? k : n,
                              0.0f, c.data(), n);
                 }});
#endif
  static const BlisSgemm blis = load_blis();
  if (blis != nullptr) {
    all.push_back({"BLIS", [&] {
                     const float one = 1.0f;
                     const float zero = 0.0f;
                     blis(0, 0, m, n, k, &one, a.data(), p.transpose_a ? 1 : k,
                          p.transpose_a ? m : 1, b.data(), p.transpose_b ? 1 : n,
                          p.transpose_b ? k : 1, &zero, c.data(), n, 1);
                   }});
  }
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  heed::bench::alternate(all, 15, std::max(1, static_cast<int>(2e9 / flops)));
  std::printf("%s %5ld x %5ld x %5ld", p.name, m, n, k);
  const double ours = all.front().median();
  for (Contestant& one : all) {
    std::printf("  %s %.0f (best %.0f) GFLOP/s", one.name.c_str(), flops / one.median() * 1e-9,
                flops / one.best() * 1e-9);
    if (&one != &all.front()) {
      std::printf(" [heed %.2fx]", one.median() / ours);
    }
  }
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main() {
  std::printf("%d threads\n", heed::thread_count());
  for (const Product& product : kProducts) {
    for (const auto& [n, k] :
         {std::pair<int64_t, int64_t>{768, 768}, {2304, 768}, {3072, 768}, {768, 3072}}) {
      compare(1024, n, k, product);
    }
    compare(256, 384, 384, product);
    compare(64, 64, 64, product);
  }
}
