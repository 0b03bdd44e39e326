// Products of bfloat16 operands by AMX: tiles of 16 rows x 64 bytes, of which tdpbf16ps multiplies
// two and adds the products to a third (Intel 64 and IA-32 Architectures Software Developer's
// Manual, volume 1, chapter 18).
#include <immintrin.h>
#include <stdint.h>

#include "trainer/backend/cpu/kernels.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kLineBytes = 64;
constexpr int64_t kElementBytes = sizeof(uint16_t);
constexpr int64_t kFloatBytes = sizeof(float);

// Palette 1. What a sum, a left and a right tile hold is the same for all products of a begin.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// The numbers of tiles are part of an instruction, so each stands in the code.
[[gnu::always_inline]] inline void ZeroSum(int tile) {
  if (tile == 0) _tile_zero(0);
  if (tile == 1) _tile_zero(1);
  if (tile == 2) _tile_zero(2);
  if (tile == 3) _tile_zero(3);
}
[[gnu::always_inline]] inline void LoadSum(int tile, const float* from, int64_t bytes) {
  if (tile == 0) _tile_loadd(0, from, bytes);
  if (tile == 1) _tile_loadd(1, from, bytes);
  if (tile == 2) _tile_loadd(2, from, bytes);
  if (tile == 3) _tile_loadd(3, from, bytes);
}
[[gnu::always_inline]] inline void StoreSum(int tile, float* to, int64_t bytes) {
  if (tile == 0) _tile_stored(0, to, bytes);
  if (tile == 1) _tile_stored(1, to, bytes);
  if (tile == 2) _tile_stored(2, to, bytes);
  if (tile == 3) _tile_stored(3, to, bytes);
}
// Left operands lie in tiles 4 and 5, right ones in 6 and 7.
[[gnu::always_inline]] inline void LoadOperand(int tile, const uint16_t* from, int64_t bytes) {
  if (tile == 4) _tile_loadd(4, from, bytes);
  if (tile == 5) _tile_loadd(5, from, bytes);
  if (tile == 6) _tile_loadd(6, from, bytes);
  if (tile == 7) _tile_loadd(7, from, bytes);
}
[[gnu::always_inline]] inline void Multiply(int sum, int left, int right) {
  if (sum == 0 && left == 4 && right == 6) _tile_dpbf16ps(0, 4, 6);
  if (sum == 1 && left == 4 && right == 7) _tile_dpbf16ps(1, 4, 7);
  if (sum == 2 && left == 4 && right == 6) _tile_dpbf16ps(2, 4, 6);
  if (sum == 3 && left == 4 && right == 7) _tile_dpbf16ps(3, 4, 7);
  if (sum == 1 && left == 5 && right == 6) _tile_dpbf16ps(1, 5, 6);
  if (sum == 2 && left == 5 && right == 6) _tile_dpbf16ps(2, 5, 6);
  if (sum == 3 && left == 5 && right == 6) _tile_dpbf16ps(3, 5, 6);
  if (sum == 3 && left == 5 && right == 7) _tile_dpbf16ps(3, 5, 7);
}

// One tile of c. One that c holds in part goes through a copy.
class SumPlace {
 public:
  [[gnu::always_inline]] SumPlace(const Bf16ProductArgs& args, int row, int group)
      : args_(args),
        row_(row),
        group_(group),
        rows_(args.rows - row < args.block ? args.rows - row : args.block),
        lanes_(group + 1 == args.groups ? args.last_lanes : kLanes) {}

  [[gnu::always_inline]] void Begin(int tile) const {
    if (args_.start == nullptr) return ZeroSum(tile);
    const float* start = args_.start + row_ * args_.start_row + group_ * args_.start_group;
    if (whole()) return LoadSum(tile, start, args_.start_row * kFloatBytes);
    alignas(64) float copy[kMostTileRows][kLanes] = {};
    for (int r = 0; r < rows_; ++r) __builtin_memcpy(copy[r], start + r * args_.start_row, lanes_ * sizeof(float));
    LoadSum(tile, copy[0], kLineBytes);
  }

  [[gnu::always_inline]] void End(int tile) const {
    float* c = args_.c + row_ * args_.c_row + group_ * args_.c_group;
    if (whole()) return StoreSum(tile, c, args_.c_row * kFloatBytes);
    alignas(64) float copy[kMostTileRows][kLanes];
    StoreSum(tile, copy[0], kLineBytes);
    for (int r = 0; r < rows_; ++r) __builtin_memcpy(c + r * args_.c_row, copy[r], lanes_ * sizeof(float));
  }

 private:
  bool whole() const { return rows_ == args_.block && lanes_ == kLanes; }

  const Bf16ProductArgs& args_;
  const int row_, group_, rows_, lanes_;
};

// Blocks of kRows left and kGroups right tiles: at most four sums. Operands that are more than two
// take turns.
template <int kRows, int kGroups>
void RunTiles(const Bf16ProductArgs& args, int row, int group) {
#pragma GCC unroll 4
  for (int i = 0; i < kRows * kGroups; ++i) SumPlace(args, row + i / kGroups * args.block, group + i % kGroups).Begin(i);
  const int64_t a_bytes = args.a_row * kElementBytes;
  const int64_t a_block = args.a_row * args.block;
  const uint16_t* a_outer = args.a + row * args.a_row;
  const uint16_t* b_outer = args.b + group * args.b_group;
  for (int outer = 0; outer < args.outer; ++outer, a_outer += args.a_outer, b_outer += args.b_outer) {
    const uint16_t* a = a_outer;
    const uint16_t* b = b_outer;
    for (int inner = 0; inner < args.inner; ++inner, a += args.a_inner, b += args.b_inner) {
#pragma GCC unroll 4
      for (int i = 0; i < kRows * kGroups; ++i) {
        const int r = i / kGroups;
        const int j = i % kGroups;
        if (j == 0) LoadOperand(4 + r % 2, a + r * a_block, a_bytes);
        if (r == 0) LoadOperand(6 + j % 2, b + j * args.b_group, kLineBytes);
        Multiply(i, 4 + r % 2, 6 + j % 2);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRows * kGroups; ++i) SumPlace(args, row + i / kGroups * args.block, group + i % kGroups).End(i);
}

// All groups of kRows blocks of rows.
template <int kRows>
void RunRows(const Bf16ProductArgs& args, int row) {
  constexpr int kGroups = 4 / kRows;
  int group = 0;
  for (; group + kGroups <= args.groups; group += kGroups) RunTiles<kRows, kGroups>(args, row, group);
  if constexpr (kGroups == 4) {
    for (; group + 2 <= args.groups; group += 2) RunTiles<kRows, 2>(args, row, group);
  }
  for (; group < args.groups; ++group) RunTiles<kRows, 1>(args, row, group);
}

void ConfigureTiles(int block, int pairs) {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.rows[tile] = static_cast<uint8_t>(tile < 6 ? block : pairs);
    config.row_bytes[tile] = static_cast<uint16_t>(tile == 4 || tile == 5 ? 2 * pairs * kElementBytes : kLineBytes);
  }
  // gcc 12 tells its optimizer that ldtilecfg reads 8 bytes, and drops the stores to all others.
  asm volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}

void MultiplyTiles(const Bf16ProductArgs& args) {
  int blocks = (args.rows + args.block - 1) / args.block;
  int row = 0;
  for (; args.groups == 1 && blocks >= 4; blocks -= 4, row += 4 * args.block) RunRows<4>(args, row);
  for (; blocks >= 2; blocks -= 2, row += 2 * args.block) RunRows<2>(args, row);
  if (blocks == 1) RunRows<1>(args, row);
}

void ReleaseTiles() { _tile_release(); }

}  // namespace

namespace amx {
extern const Bf16Kernels kProducts;
const Bf16Kernels kProducts = [] {
  Bf16Kernels kernels = {};
  kernels.begin = ConfigureTiles;
  kernels.end = ReleaseTiles;
  kernels.product = MultiplyTiles;
  return kernels;
}();
}  // namespace amx

}  // namespace trainyard::engine
