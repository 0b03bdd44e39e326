#include <algorithm>

#include "trainer/backend/cuda/driver/launch.h"

namespace trainyard::engine::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kStoreTile = 16;

template <typename B>
__global__ void EachKernel(B body, int64_t count) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) body(i);
}

// Adds up the lanes of one column of `sums` [lanes][across]; every thread of the block comes here.
template <typename B>
__device__ void AddLanes(typename B::Sum* sums, int lane, int column, int lanes, int across) {
  for (int half = lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) sums[lane * across + column] = B::Combine(sums[lane * across + column], sums[(lane + half) * across + column]);
  }
}

// partial [splits, outputs] is null where there is one split.
template <typename B>
__device__ void Keep(const B& body, int64_t output, int64_t outputs, int split, typename B::Sum sum, typename B::Sum* partial) {
  if (partial == nullptr) {
    body.Store(output, sum);
  } else {
    partial[split * outputs + output] = sum;
  }
}

// Neighbouring threads take neighbouring outputs: blocks of tile x lanes.
template <typename B>
__global__ void AcrossKernel(B body, SumOrder order, int64_t outputs, typename B::Sum* partial) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto* const sums = reinterpret_cast<typename B::Sum*>(memory);
  const int64_t output = static_cast<int64_t>(blockIdx.x) * order.tile + threadIdx.x;
  const bool inside = output < outputs;
  sums[threadIdx.y * order.tile + threadIdx.x] =
      inside ? LaneSum(body, order, output, static_cast<int32_t>(blockIdx.y), static_cast<int32_t>(threadIdx.y)) : B::Zero();
  AddLanes<B>(sums, threadIdx.y, threadIdx.x, order.lanes, order.tile);
  if (inside && threadIdx.y == 0) Keep(body, output, outputs, blockIdx.y, sums[threadIdx.x], partial);
}

// One block an output and split; neighbouring threads take neighbouring terms.
template <typename B>
__global__ void AlongKernel(B body, SumOrder order, int64_t outputs, typename B::Sum* partial) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto* const sums = reinterpret_cast<typename B::Sum*>(memory);
  const int64_t output = blockIdx.x;
  sums[threadIdx.x] = LaneSum(body, order, output, static_cast<int32_t>(blockIdx.y), static_cast<int32_t>(threadIdx.x));
  AddLanes<B>(sums, threadIdx.x, 0, order.lanes, 1);
  if (threadIdx.x == 0) Keep(body, output, outputs, blockIdx.y, sums[0], partial);
}

// Blocks of kStoreTile outputs x kStoreLanes.
template <typename B>
__global__ void StoreKernel(B body, SumOrder order, int64_t outputs, const typename B::Sum* partial) {
  __shared__ __align__(16) unsigned char memory[kStoreTile * SumOrder::kStoreLanes * sizeof(typename B::Sum)];
  auto* const sums = reinterpret_cast<typename B::Sum*>(memory);
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kStoreTile + threadIdx.x;
  const bool inside = output < outputs;
  sums[threadIdx.y * kStoreTile + threadIdx.x] =
      inside ? SplitSum<B>(order, outputs, output, static_cast<int32_t>(threadIdx.y), partial) : B::Zero();
  AddLanes<B>(sums, threadIdx.y, threadIdx.x, SumOrder::kStoreLanes, kStoreTile);
  if (inside && threadIdx.y == 0) body.Store(output, sums[threadIdx.x]);
}

unsigned Blocks(int64_t count, int64_t of) { return static_cast<unsigned>((count + of - 1) / of); }

template <typename B>
cudaError_t Start(const Each<B>& work, cudaStream_t stream) {
  constexpr int64_t kMostBlocks = 65'536;  // the rest by strides
  if (work.count == 0) return cudaSuccess;
  const int64_t blocks = std::min<int64_t>(kMostBlocks, Blocks(work.count, kThreads));
  EachKernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(work.body, work.count);
  return cudaGetLastError();
}

template <typename B>
cudaError_t Start(const Reduce<B>& work, cudaStream_t stream) {
  using Sum = typename B::Sum;
  if (work.outputs == 0) return cudaSuccess;
  const SumOrder order = work.order();
  Sum* const partial = order.splits == 1 ? nullptr : static_cast<Sum*>(work.partial);
  const auto splits = static_cast<unsigned>(order.splits);
  const auto lanes = static_cast<unsigned>(order.lanes);
  if constexpr (B::kAcross) {
    const auto tile = static_cast<unsigned>(order.tile);
    const dim3 blocks(Blocks(work.outputs, tile), splits);
    AcrossKernel<<<blocks, dim3(tile, lanes), lanes * tile * sizeof(Sum), stream>>>(work.body, order, work.outputs, partial);
  } else {
    const dim3 blocks(static_cast<unsigned>(work.outputs), splits);
    AlongKernel<<<blocks, lanes, lanes * sizeof(Sum), stream>>>(work.body, order, work.outputs, partial);
  }
  if (partial != nullptr) {
    const dim3 threads(kStoreTile, SumOrder::kStoreLanes);
    StoreKernel<<<Blocks(work.outputs, kStoreTile), threads, 0, stream>>>(work.body, order, work.outputs, partial);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchKernel(const Work& work, cudaStream_t stream) {
  return std::visit([&](const auto& w) { return Start(w, stream); }, work);
}

}  // namespace trainyard::engine::cuda
