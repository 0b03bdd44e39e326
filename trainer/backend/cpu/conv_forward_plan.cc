#include "trainer/backend/cpu/conv_forward_plan.h"

#include <algorithm>
#include <limits>

#include "trainer/backend/cpu/bf16_conv_forward.h"
#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/winograd_conv2d.h"
#include "trainer/backend/cpu/winograd_tiles.h"

namespace trainyard::engine {
namespace {

constexpr int kMaxBlock = 16;

// Steps of the innermost loop for `count` things in parts of at most `most`, as even as they go.
template <typename PerPart>
double OverParts(int count, int most, PerPart&& per_part) {
  double total = 0.0;
  for (int parts = (count + most - 1) / most; parts > 0; --parts) {
    const int part = (count + parts - 1) / parts;
    total += per_part(part);
    count -= part;
  }
  return total;
}

// Cycles of one step of a block on a core with two multiply-adds and two loads a cycle, whose
// multiply-adds take four.
double Cycles(int outputs, int columns) { return std::max({outputs * columns / 2.0, (outputs + columns) / 2.0, 4.0}) + 0.25; }

bool HasBorders(const ConvShape& shape) {
  return shape.pad_left != 0 || (shape.out_w - 1) * shape.stride_w - shape.pad_left + shape.kernel_w > shape.in_w;
}

// Panels in each of the fewest groups of at most `most`: even groups divide evenly among threads.
int EvenGroup(int panels, int most) {
  const int groups = std::max(1, (panels + most - 1) / most);
  return std::max(1, (panels + groups - 1) / groups);
}

}  // namespace

ConvForwardPlan ConvForwardPlan::Direct(const ConvShape& shape, const KernelTable& kernels) {
  ConvForwardPlan best;
  double best_cycles = std::numeric_limits<double>::infinity();
  const bool borders = HasBorders(shape);
  for (int columns = 1; columns <= kernels.max_columns; ++columns) {
    for (int block = 1; block <= kMaxBlock && block * columns <= kernels.max_sums; ++block) {
      double cycles = 0.0;
      for (int output = 0; output < shape.outputs; output += block) {
        const int outputs = std::min(block, shape.outputs - output);
        cycles += OverParts(shape.out_w, columns, [&](int part) { return Cycles(outputs, part); });
      }
      if (cycles < best_cycles) {
        best_cycles = cycles;
        best.block = block;
        best.columns = columns;
        best.group = borders ? EvenGroup(shape.panels, columns) : 1;
      }
    }
  }
  return best;
}

ConvForwardPlan ConvForwardPlan::For(const ConvForwardArgs& args, const CpuDevice& device) {
  if (!PrefersWinogradConv2d(args, device)) return Direct(args.shape, device.kernels);
  ConvShape product;
  product.outputs = args.shape.outputs;
  product.in_w = product.out_w = WinogradTilesAtATime(args);
  ConvForwardPlan plan = Direct(product, device.kernels);
  plan.winograd = WinogradResults(args.shape);
  return plan;
}

void ConvForwardPlan::ApplyTo(ConvForwardArgs& args) const {
  args.block = block;
  args.columns = columns;
  args.group = group;
  args.winograd = winograd;
}

namespace {

// Of one thread.
int64_t PooledRowFloats(const ConvForwardArgs& args) {
  return args.max_pool ? int64_t{args.group} * args.pool_h * args.shape.out_w * args.shape.outputs * kLanes : 0;
}

}  // namespace

size_t PackedWeightFloats(const ConvForwardArgs& args, const CpuDevice& device) {
  const ConvShape& shape = args.shape;
  if (args.winograd != 0) return WinogradWeightFloats(shape);
  if (device.bf16 != nullptr) return Bf16WeightFloats(shape);
  return PaddedFloats(int64_t{shape.kernel_h} * shape.kernel_w * shape.channels * shape.outputs);
}

size_t ConvForwardScratchFloats(const ConvForwardArgs& args, const CpuDevice& device) {
  if (args.winograd != 0) return WinogradScratchFloats(args, device.pool.threads());
  if (device.bf16 != nullptr) return Bf16ConvForwardScratchFloats(args, device.pool.threads());
  return static_cast<size_t>(PooledRowFloats(args) * device.pool.threads());
}

void RunPack(const PackArgs& args, CpuDevice& device) {
  if (args.winograd != 0) return RunWinogradPack(args, device);
  if (device.bf16 != nullptr) return RunBf16Pack(args, device);
  constexpr int64_t kLeastToShare = 32 << 10;  // floats: fewer cost less than waking a thread
  const int outputs = args.transposed ? args.in : args.out;
  const int blocks = (outputs + args.block - 1) / args.block;
  if (int64_t{args.kernel_h} * args.kernel_w * args.in * args.out < kLeastToShare) return device.kernels.pack(args);
  device.pool.Run(blocks, [&](int64_t begin, int64_t end, int) {
    PackArgs part = args;
    part.block_begin = static_cast<int>(begin);
    part.block_end = static_cast<int>(end);
    device.kernels.pack(part);
  });
}

namespace {

// Some pieces for each thread: their end finds all threads at work.
int64_t PieceOf(int64_t units, const ThreadPool& pool) {
  constexpr int64_t kPieces = 8;
  return std::max<int64_t>(1, units / (kPieces * pool.threads()));
}

// Each thread takes the rows of a call by one group of panels after another's.
void RunRowsTogether(const ConvForwardArgs& args, CpuDevice& device, const BehindRows& behind, int blocks) {
  const ConvShape& shape = args.shape;
  const int calls = CallsOf(args);
  const int groups = (shape.panels + args.group - 1) / args.group;
  device.pool.RunShared(int64_t{groups} * calls, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int group = static_cast<int>(unit / calls);
      const int call = static_cast<int>(unit % calls);
      const int row = group * shape.out_h + call * args.rows_behind;
      const int rows = std::min(args.rows_behind, shape.out_h - call * args.rows_behind);
      device.kernels.conv_forward(args, {row, row + rows, 0, blocks});
      const int last = std::min(shape.panels, (group + 1) * args.group);
      for (int panel = group * args.group; panel < last; ++panel) behind(panel, call, thread);
    }
  });
}

}  // namespace

void RunConvForward(const ConvForwardArgs& args, CpuDevice& device, const BehindRows* behind) {
  if (args.winograd != 0) return RunWinogradConvForward(args, device, behind);
  if (device.bf16 != nullptr) return RunBf16ConvForward(args, device, behind);
  const KernelTable& kernels = device.kernels;
  ThreadPool& pool = device.pool;
  const int blocks = (args.shape.outputs + args.block - 1) / args.block;
  const int units = (args.shape.panels + args.group - 1) / args.group * (args.shape.out_h / args.pool_h);
  if (behind != nullptr && units >= 2 * pool.threads() * args.rows_behind) return RunRowsTogether(args, device, *behind, blocks);
  if (units >= 2 * pool.threads() || args.max_pool) {
    pool.RunShared(units, PieceOf(units, pool), [&](int64_t begin, int64_t end, int thread) {
      ConvForwardArgs mine = args;
      if (args.scratch != nullptr) mine.scratch = args.scratch + thread * PooledRowFloats(args);
      kernels.conv_forward(mine, {static_cast<int>(begin), static_cast<int>(end), 0, blocks});
    });
  } else {
    pool.Run(blocks, [&](int64_t begin, int64_t end, int) {
      kernels.conv_forward(args, {0, units, static_cast<int>(begin), static_cast<int>(end)});
    });
  }
  if (behind != nullptr) CallForAllRows(*behind, args, pool);
}

}  // namespace trainyard::engine
