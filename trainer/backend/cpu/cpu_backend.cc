#include "trainer/backend/cpu/cpu_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/float28_weights.h"
#include "trainer/backend/cpu/gather_moments.h"
#include "trainer/backend/cpu/inference.h"
#include "trainer/backend/cpu/join_add.h"
#include "trainer/backend/cpu/join_cross_entropy.h"
#include "trainer/backend/cpu/lay_out.h"
#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/narrow_rows.h"
#include "trainer/backend/cpu/select_bf16.h"
#include "trainer/backend/cpu/select_kernels.h"
#include "trainer/backend/cpu/unpool_in_weights.h"
#include "trainer/backend/narrow_values.h"
#include "trainer/base/cpu_quota.h"
#include "trainer/base/status_macros.h"
#include "trainer/ops/fuse.h"

namespace trainyard::engine {
namespace {

// Kernels that somebody chose are alone.
Float28Product Float28ProductBeside(const KernelTable& kernels) {
  return &kernels == RunnableKernels().front() ? RunnableFloat28Product() : nullptr;
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(const char* isa, const KernelTable& kernels, const std::optional<Bf16Kernels>& bf16, int threads)
      : isa_(isa),
        pool_(threads),
        bf16_(bf16),
        device_{kernels, pool_, weights_, Float28ProductBeside(kernels), bf16_.has_value() ? &*bf16_ : nullptr} {}

  std::string_view name() const override { return "cpu"; }
  std::string_view kernels() const override { return isa_; }
  bool uses_host_memory() const override { return true; }
  ThreadPool* threads() override { return &pool_; }
  DType real() const override { return DType::kF32; }
  Graph Rewrite(const Graph& forward, const RewriteOptions& options) const override {
    const Graph graph = options.fuse ? FuseEpilogues(forward) : forward;
    if (RunsInference(options.inference)) return RewriteForInference(graph);
    Graph laid_out = LayOut(graph);
    if (options.fuse) laid_out = GatherMoments(JoinCrossEntropy(JoinAdds(laid_out)));
    if (device_.bf16 != nullptr) laid_out = NarrowRows(NarrowValues(laid_out, NarrowReach::kDense));
    if (!options.fuse) return laid_out;
    return UnpoolInWeights(laid_out, device_.bf16 != nullptr ? Precision::kBfloat16 : Precision::kFloat32);
  }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(std::string_view what, size_t bytes) override {
    return AllocateOnHost(what, bytes);
  }

  size_t BytesFor(const ValueSpec& spec) const override {
    const int64_t elements = spec.row_major || spec.batched ? VectorsOf(spec) * kLanes : spec.shape.elements();
    return static_cast<size_t>(elements * ElementBytes(spec));
  }

  absl::StatusOr<std::unique_ptr<Kernel>> Compile(const Graph& graph, NodeId id, bool inference) override {
    const NodeView node(graph, id);
    return std::visit(
        [&](const auto& op) -> absl::StatusOr<std::unique_ptr<Kernel>> {
          if constexpr (requires { CompileForInference(device_, node, op); }) {
            if (RunsInference(inference)) return CompileForInference(device_, node, op);
          }
          if constexpr (requires { engine::Compile(device_, node, op); }) {
            return engine::Compile(device_, node, op);
          }
          return absl::UnimplementedError(fmt::format("node '{}': the cpu backend has no kernel for op {}", node.node().name, OpName(op)));
        },
        graph.node(id).op);
  }

  void Upload(const ValueSpec& spec, float u8_scale, const Tensor& host, void* value) override {
    if (!spec.batched || spec.row_major) {
      if (host.dtype == DType::kU8 && spec.dtype == DType::kF32) {
        std::transform(host.values<uint8_t>().begin(), host.values<uint8_t>().end(), static_cast<float*>(value),
                       [&](uint8_t x) { return static_cast<float>(x) * u8_scale; });
      } else {
        std::memcpy(value, host.data, host.bytes());
      }
      return;
    }
    const PanelLayout layout(spec.shape);
    const bool from_u8 = host.dtype == DType::kU8;
    device_.pool.Run(layout.panels, [&](int64_t begin, int64_t end, int) {
      ConvertArgs args = PartOf(layout, begin, end);
      args.from = static_cast<const std::byte*>(host.data) + begin * kLanes * layout.features * static_cast<int64_t>(SizeOf(host.dtype));
      args.to = static_cast<float*>(value) + begin * kLanes * layout.features;
      args.scale = u8_scale;
      (from_u8 ? device_.kernels.to_panels_u8 : device_.kernels.to_panels_f32)(args);
    });
  }

  void Download(const ValueSpec& spec, const void* value, const Tensor& host) override {
    const int64_t elements = spec.shape.elements();
    // Panels go straight to f32 and u8. A host of f64 is filled from its end on, where its f32
    // elements were put first.
    void* rows = host.data;
    if (host.dtype == DType::kF64) rows = static_cast<float*>(host.data) + elements;
    if (!spec.batched || spec.row_major) {
      std::memcpy(rows, value, static_cast<size_t>(elements) * SizeOf(spec.dtype));
    } else {
      const PanelLayout layout(spec.shape);
      ConvertArgs args = PartOf(layout, 0, layout.panels);
      args.from = value;
      args.to = rows;
      (spec.dtype == DType::kU8 ? device_.kernels.from_panels_u8 : device_.kernels.from_panels_f32)(args);
    }
    if (host.dtype == DType::kF64) {
      for (int64_t i = 0; i < elements; ++i) {
        float element;
        std::memcpy(&element, static_cast<const float*>(rows) + i, sizeof element);
        host.values<double>()[i] = element;
      }
    }
  }

 private:
  // Products of bfloat16 have no kernels of their own for inference.
  bool RunsInference(bool wanted) const { return wanted && device_.bf16 == nullptr; }

  static ConvertArgs PartOf(const PanelLayout& layout, int64_t begin, int64_t end) {
    ConvertArgs args;
    args.samples = static_cast<int>(std::min(layout.samples, end * kLanes) - begin * kLanes);
    args.features = layout.features;
    return args;
  }

  const char* const isa_;
  ThreadPool pool_;
  WeightStore weights_;
  const std::optional<Bf16Kernels> bf16_;
  CpuDevice device_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(const CpuBackendOptions& options) {
  if (options.threads < 0) {
    return absl::InvalidArgumentError(
        fmt::format("threads is {}, expected at least 1, or 0 for the processors of this cgroup", options.threads));
  }
  const int threads = options.threads == 0 ? CpuQuota() : options.threads;
  if (options.precision == Precision::kBfloat16) {
    TY_ASSIGN_OR_RETURN(const Bf16Set set, SelectBf16Set(options.isa));
    return std::make_unique<CpuBackend>(set.isa, *set.table, set.kernels, threads);
  }
  TY_ASSIGN_OR_RETURN(const KernelTable* kernels, SelectKernels(options.isa));
  return std::make_unique<CpuBackend>(kernels->isa, *kernels, std::nullopt, threads);
}

namespace {

// Runs work, which returns the operations that it did; the best rate of some runs.
template <typename Work>
double BestRate(Work&& work) {
  double best = 0.0;
  for (int run = 0; run < 25; ++run) {
    const auto start = std::chrono::steady_clock::now();
    const double flops = work();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, flops / seconds.count());
  }
  return best;
}

// Two blocks of rows times two groups, of the same tiles again and again.
double MultiplyTiles(const Bf16Kernels& kernels) {
  constexpr int kSteps = 4'000;
  alignas(64) static constexpr std::array<uint16_t, 2 * kMostTileRows * kGroupPair> kZeros = {};
  alignas(64) std::array<float, 2 * kMostTileRows * 2 * kLanes> sums;
  Bf16ProductArgs args;
  args.rows = 2 * kMostTileRows;
  args.block = kMostTileRows;
  args.pairs = kMostTilePairs;
  args.groups = 2;
  args.outer = 1;
  args.inner = kSteps;
  args.a = args.b = kZeros.data();
  args.a_row = kGroupPair;
  args.b_group = kMostTilePairs * kGroupPair;
  args.c = sums.data();
  args.c_row = 2 * kLanes;
  args.c_group = kLanes;
  if (kernels.begin != nullptr) kernels.begin(args.block, args.pairs);
  kernels.product(args);
  if (kernels.end != nullptr) kernels.end();
  return 2.0 * args.rows * (2 * kLanes) * (2 * kMostTilePairs) * kSteps;
}

}  // namespace

absl::StatusOr<double> MeasurePeakFlops(const std::string& isa, Precision precision) {
  if (precision == Precision::kBfloat16) {
    TY_ASSIGN_OR_RETURN(const Bf16Set set, SelectBf16Set(isa));
    return BestRate([&] { return MultiplyTiles(set.kernels); });
  }
  TY_ASSIGN_OR_RETURN(const KernelTable* kernels, SelectKernels(isa));
  alignas(64) std::array<float, kLanes> sink;
  return BestRate([&] {
    sink = {0.999f, 0.001f};
    return kernels->multiply_adds(200'000, sink.data());
  });
}

}  // namespace trainyard::engine
