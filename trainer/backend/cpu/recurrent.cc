// Recurrent layers: each step is one product of all samples' h, then the gates. The recurrent
// kernel is packed once for all steps. Its gradient is one product over all samples and steps.
#include "trainer/ops/recurrent.h"

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/inference.h"
#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/make_kernel.h"
#include "trainer/backend/cpu/rows_product.h"
#include "trainer/backend/cpu/sample_steps.h"

namespace trainyard::engine {
namespace {

struct Sizes {
  int64_t samples, steps, units, gates;
  bool reverse;

  Sizes(const RecurrentOp& op, const Shape& y) : samples(y[0]), steps(y[1]), units(y[2]), gates(GateCount(op.cell)), reverse(op.reverse) {}
  int64_t width() const { return gates * units; }
  // The step that runs as number `count`.
  int64_t At(int64_t count) const { return reverse ? steps - 1 - count : count; }
};

// Where the rows of all samples at one step lie: `stride` floats apart.
struct StepRows {
  const float* data;
  int64_t stride;
};
StepRows RowsAt(const float* sequence, const Sizes& n, int64_t step, int64_t width) {
  return {sequence == nullptr ? nullptr : sequence + step * width, n.steps * width};
}

// h or c before the step that runs as number `count`: null for zeros.
StepRows Before(const float* sequence, const float* initial, const Sizes& n, int64_t count) {
  return count > 0 ? RowsAt(sequence, n, n.At(count - 1), n.units) : StepRows{initial, n.units};
}

// The gates that an LSTM or GRU keeps for the way back: f32 or, of an LSTM, 16 bits.
struct KeptGates {
  bool narrow = false;

  template <typename Byte>
  Byte* At(Byte* first, int64_t element) const {
    return first == nullptr ? nullptr : first + element * static_cast<int64_t>(narrow ? sizeof(uint16_t) : sizeof(float));
  }
};

// sums[i] = the sum of all rows' element i
void SumRows(const float* matrix, int64_t rows, int64_t width, float* sums, CpuDevice& device) {
  device.pool.Run(VectorsFor(width), [&](int64_t begin, int64_t end, int) {
    const int64_t first = begin * kLanes;
    const int64_t last = std::min(end * kLanes, width);
    std::fill(sums + first, sums + last, 0.0f);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = first; i < last; ++i) sums[i] += matrix[row * width + i];
    }
  });
}

const float* InputOrNull(const KernelContext& context, int index) { return index < 0 ? nullptr : context.input<float>(index); }

// Hands out pieces of scratch, each at a vector's boundary.
class ScratchPieces {
 public:
  explicit ScratchPieces(void* memory) : next_(static_cast<float*>(memory)) {}
  float* Take(int64_t floats) {
    float* const piece = next_;
    next_ += PaddedFloats(floats);
    return piece;
  }

 private:
  float* next_;
};

}  // namespace

namespace {

// `kept` holds the packed recurrent kernel from Prepare on; null: each run packs it.
CompiledKernel MakeRecurrent(CpuDevice& device, const NodeView& node, const RecurrentOp& op, const std::shared_ptr<const float>* kept) {
  const Sizes n(op, node.out().shape);
  const auto packed_floats = static_cast<int64_t>(PackedFloats(n.units, n.width(), device));
  const int64_t left_floats = PaddedFloats(static_cast<int64_t>(PackedProductScratchFloats(n.samples, n.units, device)));
  const KeptGates kept_gates = {op.cell == Cell::kLstm && node.out(RecurrentOutputs::kGates).narrow};
  // Packed kernel, work of each thread's product, product of one step, cells that nobody keeps.
  const int64_t scratch = (kept == nullptr ? PaddedFloats(packed_floats) : 0) + device.pool.threads() * left_floats +
                          PaddedFloats(n.samples * n.width()) + PaddedFloats(n.samples * n.steps * n.units);
  return MakeKernel(
      [&device, op, n, kept_gates, kept, packed_floats, left_floats, at = RecurrentInputs(op)](const KernelContext& context) {
        ScratchPieces memory(context.scratch);
        float* const own = kept == nullptr ? memory.Take(packed_floats) : nullptr;
        const float* const packed = kept == nullptr ? own : kept->get();
        float* const left = memory.Take(device.pool.threads() * left_floats);
        float* const q = memory.Take(n.samples * n.width());
        float* const y = context.output<float>(RecurrentOutputs::kSequence);
        const bool lstm = op.cell == Cell::kLstm;
        float* cells = lstm ? context.output<float>(RecurrentOutputs::kCells) : nullptr;
        if (lstm && cells == nullptr) cells = memory.Take(n.samples * n.steps * n.units);
        auto* const gates = op.cell == Cell::kSimpleRnn ? nullptr : context.output<std::byte>(RecurrentOutputs::kGates);
        const float* const bias = InputOrNull(context, at.bias);
        RowsProduct product;
        product.k = n.units;
        product.columns = product.b_row = product.c_row = n.width();
        product.b = context.input<float>(at.kernel);
        product.bias = bias == nullptr ? nullptr : bias + n.width();
        if (own != nullptr) PackRightSide(product, own, device);
        RunSteps(n.samples, packed, left, left_floats, device, [&](const SampleSteps& samples) {
          for (int64_t count = 0; count < n.steps; ++count) {
            const int64_t step = n.At(count);
            const StepRows h = Before(y, InputOrNull(context, at.h), n, count);
            const StepRows c = Before(cells, InputOrNull(context, at.c), n, count);
            if (h.data != nullptr) {
              RowsProduct part = product;
              part.a = h.data + samples.begin * h.stride;
              part.a_row = h.stride;
              part.c = q + samples.begin * n.width();
              samples.Multiply(part);
            } else {
              for (int64_t row = samples.begin; row < samples.end; ++row) {
                for (int64_t i = 0; i < n.width(); ++i) q[row * n.width() + i] = product.bias == nullptr ? 0.0f : product.bias[i];
              }
            }
            samples.Divide([&](int64_t begin, int64_t end) {
              RecurrentStepArgs args;
              args.cell = op.cell;
              args.activation = op.activation;
              args.rows = static_cast<int>(end - begin);
              args.units = static_cast<int>(n.units);
              args.z_row = n.steps * n.width();
              args.z = context.input<float>(at.z) + step * n.width() + begin * args.z_row;
              args.q = q + begin * n.width();
              args.z_bias = bias;
              args.h_row = h.stride;
              args.h = h.data == nullptr ? nullptr : h.data + begin * h.stride;
              args.c_row = c.stride;
              args.c = c.data == nullptr ? nullptr : c.data + begin * c.stride;
              args.y_row = args.cells_row = n.steps * n.units;
              args.y = y + step * n.units + begin * args.y_row;
              args.cells = cells == nullptr ? nullptr : cells + step * n.units + begin * args.cells_row;
              args.gates_row = n.steps * 4 * n.units;
              args.gates = kept_gates.At(gates, step * 4 * n.units + begin * args.gates_row);
              (kept_gates.narrow ? device.bf16->lstm_step : device.kernels.recurrent_step)(args);
            });
          }
        });
        const auto copy_last = [&](const float* sequence, int output) {
          float* const last = context.output<float>(output);
          if (last == nullptr) return;
          const StepRows rows = RowsAt(sequence, n, n.At(n.steps - 1), n.units);
          for (int64_t row = 0; row < n.samples; ++row) std::copy_n(rows.data + row * rows.stride, n.units, last + row * n.units);
        };
        copy_last(y, RecurrentOutputs::kLast);
        if (lstm) copy_last(cells, RecurrentOutputs::kLastCell);
      },
      static_cast<size_t>(scratch) * sizeof(float));
}

// Packs the recurrent kernel once.
class InferenceRecurrent final : public Kernel {
 public:
  InferenceRecurrent(CpuDevice& device, const RecurrentOp& op, int64_t units)
      : device_(device), at_(RecurrentInputs(op).kernel), units_(units), width_(GateCount(op.cell) * units) {}

  absl::Status Compile(const NodeView& node, const RecurrentOp& op) {
    TY_ASSIGN_OR_RETURN(run_, MakeRecurrent(device_, node, op, &packed_));
    return absl::OkStatus();
  }
  size_t scratch_bytes() const override { return run_->scratch_bytes(); }
  void Prepare(std::span<const void* const> inputs) override {
    RowsProduct product;
    product.k = units_;
    product.columns = product.b_row = width_;
    product.b = static_cast<const float*>(inputs[at_]);
    packed_ = device_.weights.Get({{product.b}, "recurrent"}, PackedFloats(units_, width_, device_),
                                  [&](float* memory) { PackRightSide(product, memory, device_); });
  }
  void Run(const KernelContext& context) override { run_->Run(context); }

 private:
  CpuDevice& device_;
  const int at_;
  const int64_t units_, width_;
  std::shared_ptr<const float> packed_;
  std::unique_ptr<Kernel> run_;
};

}  // namespace

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const RecurrentOp& op) { return MakeRecurrent(device, node, op, nullptr); }

CompiledKernel CompileForInference(CpuDevice& device, const NodeView& node, const RecurrentOp& op) {
  auto kernel = std::make_unique<InferenceRecurrent>(device, op, node.out().shape[2]);
  TY_RETURN_IF_ERROR(kernel->Compile(node, op));
  return kernel;
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const RecurrentGradientOp& op) {
  const RecurrentGradientInputs at(op);
  const Sizes n(op.forward, node.in(at.y).shape);
  const auto packed_floats = static_cast<int64_t>(PackedFloats(n.width(), n.units, device));
  const int64_t left_floats = PaddedFloats(static_cast<int64_t>(PackedProductScratchFloats(n.samples, n.width(), device)));
  const bool gru = op.forward.cell == Cell::kGru;
  const KeptGates kept_gates = {at.gates >= 0 && node.in(at.gates).narrow};
  const int64_t rows = n.samples * n.steps;
  RowsProduct weights;
  weights.rows = weights.a_k = n.units;
  weights.a_row = 1;
  weights.columns = weights.b_row = weights.c_row = n.width();
  weights.k = rows;
  const auto product_floats = static_cast<int64_t>(RowsProductScratchFloats(weights, device));
  const int64_t scratch = PaddedFloats(product_floats) + PaddedFloats(packed_floats) + device.pool.threads() * left_floats +
                          2 * PaddedFloats(n.samples * n.units) + PaddedFloats(rows * n.units) + (gru ? PaddedFloats(rows * n.width()) : 0);
  return MakeKernel(
      [&device, op, n, at, kept_gates, gru, rows, weights, packed_floats, left_floats,
       product_floats](const KernelContext& context) mutable {
        ScratchPieces memory(context.scratch);
        float* const product_scratch = memory.Take(product_floats);
        float* const packed = memory.Take(packed_floats);
        float* const left = memory.Take(device.pool.threads() * left_floats);
        float* const dh = memory.Take(n.samples * n.units);
        float* const dc = memory.Take(n.samples * n.units);
        float* const h_before = memory.Take(rows * n.units);  // of every sample and step
        float* const dz = context.output<float>(0);
        float* const dq = gru ? memory.Take(rows * n.width()) : dz;
        const float* const y = context.input<float>(at.y);
        const auto* const gates = at.gates < 0 ? nullptr : context.input<std::byte>(at.gates);
        const float* const cells = InputOrNull(context, at.cells);
        const float* const dy = InputOrNull(context, at.dy);
        RowsProduct back;  // dh = dq of the step after, times the transposed kernel
        back.k = back.b_row = n.width();
        back.columns = back.c_row = n.units;
        back.b = context.input<float>(at.kernel);
        back.b_transposed = true;
        back.a_row = n.steps * n.width();
        back.accumulate = gru;
        PackRightSide(back, packed, device);
        std::fill_n(dc, n.samples * n.units, 0.0f);
        if (op.last) {
          std::copy_n(context.input<float>(at.dlast), n.samples * n.units, dh);
        } else {
          std::fill_n(dh, n.samples * n.units, 0.0f);
        }
        RunSteps(n.samples, packed, left, left_floats, device, [&](const SampleSteps& samples) {
          for (int64_t count = n.steps - 1; count >= 0; --count) {
            const int64_t step = n.At(count);
            const StepRows h = Before(y, InputOrNull(context, at.h), n, count);
            const StepRows c = Before(cells, InputOrNull(context, at.c), n, count);
            samples.Divide([&](int64_t begin, int64_t end) {
              RecurrentStepGradientArgs args;
              args.cell = op.forward.cell;
              args.activation = op.forward.activation;
              args.rows = static_cast<int>(end - begin);
              args.units = static_cast<int>(n.units);
              args.dy_row = args.y_row = args.cells_row = n.steps * n.units;
              args.dy = dy == nullptr ? nullptr : dy + step * n.units + begin * args.dy_row;
              args.dh = dh + begin * n.units;
              args.dc = dc + begin * n.units;
              args.y = y + step * n.units + begin * args.y_row;
              args.cells = cells == nullptr ? nullptr : cells + step * n.units + begin * args.cells_row;
              args.gates_row = n.steps * 4 * n.units;
              args.gates = kept_gates.At(gates, step * 4 * n.units + begin * args.gates_row);
              args.h_row = h.stride;
              args.h = h.data == nullptr ? nullptr : h.data + begin * h.stride;
              args.c_row = c.stride;
              args.c = c.data == nullptr ? nullptr : c.data + begin * c.stride;
              args.dz_row = n.steps * n.width();
              args.dz = dz + step * n.width() + begin * args.dz_row;
              args.dq = dq + step * n.width() + begin * args.dz_row;
              (kept_gates.narrow ? device.bf16->lstm_step_gradient : device.kernels.recurrent_step_gradient)(args);
              for (int64_t row = begin; row < end; ++row) {
                float* const to = h_before + (row * n.steps + step) * n.units;
                if (h.data == nullptr) {
                  std::fill_n(to, n.units, 0.0f);
                } else {
                  std::copy_n(h.data + row * h.stride, n.units, to);
                }
              }
            });
            if (count == 0) break;  // nothing flows back to what came before the first step
            RowsProduct part = back;
            part.a = dq + step * n.width() + samples.begin * back.a_row;
            part.c = dh + samples.begin * n.units;
            samples.Multiply(part);
          }
        });
        weights.a = h_before;
        weights.b = dq;
        weights.c = context.output<float>(1);
        float* const dbias = op.forward.bias ? context.output<float>(2) : nullptr;
        weights.b_sums = dbias == nullptr ? nullptr : dbias + n.width();
        if (weights.c != nullptr) RunRowsProduct(weights, product_scratch, device);
        if (dbias == nullptr) return;
        SumRows(dz, rows, n.width(), dbias, device);
        if (weights.c == nullptr) SumRows(dq, rows, n.width(), weights.b_sums, device);
      },
      static_cast<size_t>(scratch) * sizeof(float));
}

}  // namespace trainyard::engine
