#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/amx.h"

namespace heed::test {

/// Products of bf16 use these tiles, or none, while one lives; then the machine's again.
class ScopedTileUnit {
 public:
  explicit ScopedTileUnit(const kernels::TileUnit* unit) { kernels::use_tile_unit(unit); }
  ~ScopedTileUnit() {
    const bool there = kernels::amx_state() == kernels::AmxState::in_use;
    kernels::use_tile_unit(there ? kernels::amx_tiles() : nullptr);
  }
  ScopedTileUnit(const ScopedTileUnit&) = delete;
  ScopedTileUnit& operator=(const ScopedTileUnit&) = delete;
};

/// What a thread's tiles hold.
struct SoftwareTileState {
  using Tile = std::array<std::array<uint32_t, 16>, 16>;
  bool configured = false;
  kernels::TileShapes shapes{};
  std::array<Tile, 8> tiles{};
};

/// AMX's tile instructions in software, as Intel's manual describes them (Software Developer's
/// Manual, volume 2: LDTILECFG, TILELOADD, TILESTORED, TILEZERO, TDPBF16PS, TILERELEASE). What the
/// processor answers with a fault is a failure of the test.
class SoftwareTiles {
 public:
  /// Threads that hold tiles, and configurations so far.
  static inline std::atomic<int> holders = 0, configurations = 0;

  static void configure(const kernels::TileShapes& shapes) {
    EXPECT_FALSE(state.configured) << "this thread has tiles already";
    EXPECT_EQ(shapes.palette, 1);
    EXPECT_EQ(shapes.start_row, 0);
    for (const uint8_t byte : shapes.reserved) {
      EXPECT_EQ(byte, 0);
    }
    for (size_t tile = 0; tile < 16; ++tile) {
      const int rows = shapes.rows[tile];
      const int bytes = shapes.row_bytes[tile];
      EXPECT_TRUE(rows <= 16 && bytes <= 64 && (rows == 0) == (bytes == 0)) << tile;
      EXPECT_TRUE(tile < 8 || rows == 0) << "palette 1 has 8 tiles";
    }
    state = {.configured = true, .shapes = shapes};
    ++holders;
    ++configurations;
  }

  static void release() {
    holders -= state.configured ? 1 : 0;
    state = {};
  }

  template <int tile>
  static void zero() {
    zero_tile(tile);
  }
  template <int tile>
  static void load(const void* from, int64_t bytes) {
    load_tile(tile, from, bytes);
  }
  template <int tile>
  static void store(void* to, int64_t bytes) {
    store_tile(tile, to, bytes);
  }
  template <int sum, int a, int b>
  static void dot() {
    dot_tiles(sum, a, b);
  }

  // The same with numbers of tiles that are known at run time.
  static void zero_tile(size_t tile) { at(tile) = {}; }

  static void load_tile(size_t tile, const void* from, int64_t bytes) {
    Tile& to = at(tile);
    to = {};
    for (int64_t r = 0; r < state.shapes.rows[tile]; ++r) {
      std::memcpy(to[static_cast<size_t>(r)].data(), static_cast<const char*>(from) + r * bytes,
                  state.shapes.row_bytes[tile]);
    }
  }

  static void store_tile(size_t tile, void* to, int64_t bytes) {
    const Tile& from = at(tile);
    for (int64_t r = 0; r < state.shapes.rows[tile]; ++r) {
      std::memcpy(static_cast<char*>(to) + r * bytes, from[static_cast<size_t>(r)].data(),
                  state.shapes.row_bytes[tile]);
    }
  }

  static void dot_tiles(size_t sum, size_t a, size_t b) {
    EXPECT_TRUE(sum != a && sum != b && a != b);
    const auto& rows = state.shapes.rows;
    const auto& bytes = state.shapes.row_bytes;
    EXPECT_EQ(rows[sum], rows[a]);
    EXPECT_EQ(bytes[sum], bytes[b]);
    EXPECT_EQ(bytes[a], 4 * rows[b]);
    Tile& sums = at(sum);
    const Tile& left = at(a);
    const Tile& right = at(b);
    for (size_t m = 0; m < rows[sum]; ++m) {
      for (size_t n = 0; n < bytes[sum] / 4u; ++n) {
        float even = 0.0f, odd = 0.0f;
        for (size_t k = 0; k < rows[b]; ++k) {
          even = flushed(std::fma(lower(left[m][k]), lower(right[k][n]), even));
          odd = flushed(std::fma(upper(left[m][k]), upper(right[k][n]), odd));
        }
        const float before = flushed(float_of(sums[m][n]));
        const float after = flushed(before + flushed(even + odd));
        std::memcpy(&sums[m][n], &after, sizeof after);
      }
    }
  }

 private:
  using Tile = SoftwareTileState::Tile;
  static inline thread_local SoftwareTileState state;

  static Tile& at(size_t tile) {
    EXPECT_TRUE(state.configured) << "this thread has no tiles";
    return state.tiles.at(tile);
  }

  /// Subnormal numbers are zeros of their sign, as operands and as results.
  static float flushed(float x) {
    return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
  }
  static float float_of(uint32_t bits) {
    float x = 0.0f;
    std::memcpy(&x, &bits, sizeof x);
    return x;
  }
  static float lower(uint32_t pair) { return flushed(float_of(pair << 16)); }
  static float upper(uint32_t pair) { return flushed(float_of(pair & 0xffff0000u)); }
};

}  // namespace heed::test
