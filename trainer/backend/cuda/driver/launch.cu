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

template <int kN, typename B>
__global__ void NeighboursKernel(B body, int64_t count) {
  const int64_t whole = count / kN;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < whole; i += stride) body.template Run<kN>(i * kN);
  if (const int64_t i = whole * kN + first; i < count) body.template Run<1>(i);
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

// Neighbouring threads take neighbouring outputs, kN each: blocks of tile x lanes.
template <int kN, typename B>
__global__ void AcrossKernel(B body, SumOrder order, int64_t outputs, typename B::Sum* partial) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto* const sums = reinterpret_cast<typename B::Sum*>(memory);  // [kN][lanes][tile]
  const int64_t output = (static_cast<int64_t>(blockIdx.x) * order.tile + threadIdx.x) * kN;
  const bool inside = output < outputs;
  const int of_one = order.lanes * order.tile;
  typename B::Sum mine[kN];
  if (inside) LaneSums(body, order, output, static_cast<int32_t>(blockIdx.y), static_cast<int32_t>(threadIdx.y), mine);
  for (int k = 0; k < kN; ++k) {
    typename B::Sum* const of_k = sums + k * of_one;
    of_k[threadIdx.y * order.tile + threadIdx.x] = inside ? mine[k] : B::Zero();
    AddLanes<B>(of_k, threadIdx.y, threadIdx.x, order.lanes, order.tile);
    if (inside && threadIdx.y == 0) Keep(body, output + k, outputs, blockIdx.y, of_k[threadIdx.x], partial);
  }
}

// One block an output and split; neighbouring threads take neighbouring terms.
template <typename B>
__global__ void AlongKernel(B body, SumOrder order, int64_t outputs, typename B::Sum* partial) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto* const sums = reinterpret_cast<typename B::Sum*>(memory);
  const int64_t output = blockIdx.x;
  typename B::Sum mine[1];
  LaneSums(body, order, output, static_cast<int32_t>(blockIdx.y), static_cast<int32_t>(threadIdx.x), mine);
  sums[threadIdx.x] = mine[0];
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
  const auto blocks = [&](int64_t threads) { return static_cast<unsigned>(std::min<int64_t>(kMostBlocks, Blocks(threads, kThreads))); };
  if constexpr (kTakesNeighbours<B>) {
    WithNeighbours(work.body.neighbours(), [&](auto n) {
      NeighboursKernel<n()><<<blocks((work.count + n() - 1) / n()), kThreads, 0, stream>>>(work.body, work.count);
    });
  } else {
    EachKernel<<<blocks(work.count), kThreads, 0, stream>>>(work.body, work.count);
  }
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
    WithNeighbours(order.neighbours, [&](auto n) {
      const dim3 blocks(Blocks(work.outputs / n(), tile), splits);
      AcrossKernel<n()><<<blocks, dim3(tile, lanes), n() * lanes * tile * sizeof(Sum), stream>>>(work.body, order, work.outputs, partial);
    });
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
