// A device made of host memory and loops: it runs the bodies that the driver runs on a GPU, in the
// same order of sums. What it does not share with the driver is who does the products.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/test_host_stream.h"
#include "trainer/base/check.h"

namespace trainyard::engine::cuda {

// In any order.
template <int kN, typename B>
void RunNeighbours(const Each<B>& work) {
  const int64_t whole = work.count / kN * kN;
  for (int64_t i = work.count - 1; i >= whole; --i) work.body.template Run<1>(i);
  for (int64_t i = whole - kN; i >= 0; i -= kN) work.body.template Run<kN>(i);
}

template <typename B>
void RunOnHost(const Each<B>& work) {
  if constexpr (kTakesNeighbours<B>) {
    WithNeighbours(work.body.neighbours(), [&](auto n) { RunNeighbours<n()>(work); });
  } else {
    for (int64_t i = work.count - 1; i >= 0; --i) work.body(i);
  }
}

// Overwrites `lanes`.
template <typename B>
typename B::Sum AddHalves(typename B::Sum* lanes, int32_t count) {
  for (int32_t half = count / 2; half > 0; half /= 2) {
    for (int32_t lane = 0; lane < half; ++lane) lanes[lane] = B::Combine(lanes[lane], lanes[lane + half]);
  }
  return lanes[0];
}

template <int kN, typename B>
void AddRange(const Reduce<B>& work, const SumOrder& order, int64_t output, int32_t split, typename B::Sum* partial) {
  typename B::Sum lanes[kN][SumOrder::kMostLanes];
  for (int32_t lane = 0; lane < order.lanes; ++lane) {
    typename B::Sum sums[kN];
    LaneSums(work.body, order, output, split, lane, sums);
    for (int k = 0; k < kN; ++k) lanes[k][lane] = sums[k];
  }
  for (int k = 0; k < kN; ++k) partial[split * work.outputs + output + k] = AddHalves<B>(lanes[k], order.lanes);
}

template <typename B>
void RunOnHost(const Reduce<B>& work) {
  const SumOrder order = work.order();
  std::vector<typename B::Sum> partial(static_cast<size_t>(order.splits * work.outputs));
  for (int64_t output = 0; output < work.outputs; output += order.neighbours) {
    for (int32_t split = 0; split < order.splits; ++split) {
      if constexpr (B::kAcross) {
        WithNeighbours(order.neighbours, [&](auto n) { AddRange<n()>(work, order, output, split, partial.data()); });
      } else {
        AddRange<1>(work, order, output, split, partial.data());
      }
    }
  }
  // As on the device, through the memory that was asked for.
  if (order.splits > 1) std::memcpy(work.partial, partial.data(), PartialBytes<B>(work.outputs, work.terms));
  const auto* sums = order.splits > 1 ? static_cast<const typename B::Sum*>(work.partial) : partial.data();
  for (int64_t output = 0; output < work.outputs; ++output) {
    typename B::Sum lanes[SumOrder::kStoreLanes];
    for (int32_t lane = 0; lane < SumOrder::kStoreLanes; ++lane) lanes[lane] = SplitSum<B>(order, work.outputs, output, lane, sums);
    work.body.Store(output, AddHalves<B>(lanes, SumOrder::kStoreLanes));
  }
}

// The product that a BLAS does, as the driver asks it for one: column-major.
class HostProduct {
 public:
  explicit HostProduct(const ProductShape& shape) : shape_(shape), blas_(ColumnMajor(shape)) {}

  void Run(const void* a, const void* b, void* c, const float* bias) const {
    TY_CHECK(shape_.makes == Element::kFloat32 || (!shape_.bias && !shape_.onto));
    for (const Element element : {shape_.takes, shape_.makes}) TY_CHECK(shape_.alignment >= BytesOfElement(element));
    WithElement(shape_.makes, [&]<typename T>() { Multiply(a, b, static_cast<T*>(c), bias); });
  }

 private:
  template <typename T>
  void Multiply(const void* a, const void* b, T* c, const float* bias) const {
    for (const void* pointer : {a, b, static_cast<const void*>(c)}) TY_CHECK(reinterpret_cast<uintptr_t>(pointer) % shape_.alignment == 0);
    for (int64_t column = 0; column < blas_.columns; ++column) {
      for (int64_t row = 0; row < blas_.rows; ++row) {
        double sum = shape_.onto ? Widened(c[column * blas_.ldc + row]) : 0.0;
        if (shape_.bias) sum += bias[row];  // cuBLASLt: one for each row of C
        for (int64_t k = 0; k < blas_.depth; ++k) {
          sum += At(b, blas_.transpose_a ? row * blas_.lda + k : k * blas_.lda + row) *
                 At(a, blas_.transpose_b ? k * blas_.ldb + column : column * blas_.ldb + k);
        }
        Narrow(static_cast<float>(sum), c[column * blas_.ldc + row]);
      }
    }
  }

  double At(const void* operand, int64_t at) const {
    return WithElement(shape_.takes, [&]<typename T>() { return Widened(static_cast<const T*>(operand)[at]); });
  }

  const ProductShape shape_;
  const BlasProduct blas_;
};

// A convolution of a library: the sums that ConvolutionPlan names, by loops.
class HostConvolution {
 public:
  static constexpr size_t kWorkspaceBytes = 1000;
  explicit HostConvolution(const ConvolutionShape& shape) : shape_(shape) {}

  void Run(const void* x, const void* w, const void* z, void* made, void* workspace) const {
    const ConvolutionSizes& n = shape_.sizes;
    const int64_t x_elements = n.samples * n.in_pixels() * n.window.channels;
    const bool forward = shape_.part == ConvolutionPart::kOutput;
    const bool to_kernel = shape_.part == ConvolutionPart::kWeightGradient;
    std::memset(workspace, 0xff, kWorkspaceBytes);
    std::vector<float> sums(static_cast<size_t>(forward ? n.z_elements() : to_kernel ? n.depth() * n.filters : x_elements));
    for (int64_t at = 0; at < x_elements; ++at) {
      const PixelAt pixel(at, n.window.over_in, n.window.over_channels);
      for (int32_t oh = n.window.FirstOver(0, pixel.row); oh < n.window.EndOver(0, pixel.row); ++oh) {
        for (int32_t ow = n.window.FirstOver(1, pixel.column); ow < n.window.EndOver(1, pixel.column); ++ow) {
          const int64_t place =
              ((pixel.row - n.window.Corner(0, oh)) * n.window.size[1] + pixel.column - n.window.Corner(1, ow)) * n.window.channels +
              pixel.channel;
          for (int64_t d = 0; d < n.filters; ++d) {
            const int64_t at_w = d * n.depth() + place;
            const int64_t at_z = ((pixel.n * n.window.out[0] + oh) * n.window.out[1] + ow) * n.filters + d;
            if (forward) sums[at_z] += At(x, at) * At(w, at_w);
            if (to_kernel) sums[at_w] += At(x, at) * At(z, at_z);
            if (!forward && !to_kernel) sums[at] += At(z, at_z) * At(w, at_w);
          }
        }
      }
    }
    WithElement(shape_.makes, [&]<typename T>() {
      for (size_t i = 0; i < sums.size(); ++i) Narrow(sums[i], static_cast<T*>(made)[i]);
    });
  }

 private:
  float At(const void* from, int64_t at) const {
    return WithElement(shape_.takes, [&]<typename T>() { return Widened(static_cast<const T*>(from)[at]); });
  }

  const ConvolutionShape shape_;
};

struct HostDeviceOptions {
  int fails_at = -1;       // the launch that fails, counted from 0
  bool convolves = false;  // with a library's convolutions
  bool records = true;
  bool behind = false;  // work runs behind its caller, and not before somebody waits for it
};

// What the device was asked for, for tests to look at.
struct HostDeviceCounts {
  int launches = 0;  // those that were recorded too
  int started = 0;   // launches and products that were given to it one by one
  int recorded = 0;  // recordings
  int replayed = 0;  // starts of a recording
};

class HostDevice final : public Device {
 public:
  explicit HostDevice(const HostDeviceOptions& options = {}, HostDeviceCounts* counts = nullptr) : options_(options), counts_(counts) {
    if (options.behind) stream_ = std::make_unique<HostStream>();
  }

  std::string_view description() const override { return "host"; }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(std::string_view what, size_t bytes) override {
    TY_CHECK(!recording_);
    class Memory final : public DeviceMemory {
     public:
      Memory(HostDevice& device, std::unique_ptr<DeviceMemory> memory) : device_(device), memory_(std::move(memory)) {}
      ~Memory() override { device_.Finish(); }
      std::byte* data() override { return memory_->data(); }

     private:
      HostDevice& device_;
      const std::unique_ptr<DeviceMemory> memory_;
    };
    absl::StatusOr<std::unique_ptr<DeviceMemory>> memory = AllocateOnHost(what, bytes);
    if (!memory.ok()) return memory;
    std::memset((*memory)->data(), 0xff, bytes);  // NaN: a kernel that reads what nobody wrote is found out
    return std::make_unique<Memory>(*this, *std::move(memory));
  }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocatePinned(std::string_view what, size_t bytes) override {
    return Allocate(what, bytes);
  }

  absl::Status Launch(const Work& work) override {
    if (counts_ != nullptr) ++counts_->launches;
    if (launches_++ == options_.fails_at) return absl::InternalError("the kernel was refused");
    return Do([work] { std::visit([](const auto& w) { RunOnHost(w); }, work); });
  }
  absl::StatusOr<std::unique_ptr<ProductPlan>> Plan(const ProductShape& shape) override {
    class Plan final : public ProductPlan {
     public:
      Plan(HostDevice& device, const ProductShape& wanted) : device_(device), product_(wanted) {}
      absl::Status Run(const void* a, const void* b, void* c, const float* bias) override {
        return device_.Do([product = product_, a, b, c, bias] { product.Run(a, b, c, bias); });
      }

     private:
      HostDevice& device_;
      const HostProduct product_;
    };
    return std::make_unique<Plan>(*this, shape);
  }
  absl::StatusOr<std::unique_ptr<ConvolutionPlan>> Plan(const ConvolutionShape& shape) override {
    class Plan final : public ConvolutionPlan {
     public:
      Plan(HostDevice& device, const ConvolutionShape& wanted) : device_(device), convolution_(wanted) {}
      size_t workspace_bytes() const override { return HostConvolution::kWorkspaceBytes; }
      absl::Status Run(const void* x, const void* w, const void* z, void* made, void* workspace) override {
        return device_.Do([convolution = convolution_, x, w, z, made, workspace] { convolution.Run(x, w, z, made, workspace); });
      }

     private:
      HostDevice& device_;
      const HostConvolution convolution_;
    };
    if (!options_.convolves) return nullptr;
    return std::make_unique<Plan>(*this, shape);
  }

  absl::Status Upload(const void* host, size_t bytes, void* device) override {
    TY_CHECK(!recording_);
    const auto* const from = static_cast<const std::byte*>(host);
    Start([copy = std::vector<std::byte>(from, from + bytes), device] { std::memcpy(device, copy.data(), copy.size()); });
    return absl::OkStatus();
  }
  absl::Status Download(const void* device, size_t bytes, void* host) override {
    TY_CHECK(!recording_);
    Finish();
    std::memcpy(host, device, bytes);
    return absl::OkStatus();
  }
  // As late as may be: a result that is written over before its copy was joined is found out.
  absl::Status StartDownload(const void* device, size_t bytes, void* pinned) override {
    copies_.push_back([device, bytes, pinned] { std::memcpy(pinned, device, bytes); });
    return absl::OkStatus();
  }
  absl::Status JoinDownloads() override {
    for (std::function<void()>& copy : std::exchange(copies_, {})) TY_CHECK(Do(std::move(copy)).ok());
    return absl::OkStatus();
  }
  absl::Status Wait() override {
    TY_CHECK(!recording_ && copies_.empty());
    Finish();
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Mark>> MakeMark() override { return std::make_unique<HostMark>(*this); }
  absl::Status WaitFor(const Mark& mark) override {
    TY_CHECK(!recording_);
    const auto& host = static_cast<const HostMark&>(mark);
    if (HostStream* const stream = host.device.stream_.get()) Start([stream, place = host.place] { stream->WaitUntil(place); });
    return absl::OkStatus();
  }
  absl::Status Meet(const Device& peer) override {
    TY_CHECK(met_.insert(&peer).second && &peer != this);
    return absl::OkStatus();
  }
  absl::Status CopyFrom(const Device& peer, const void* from, size_t bytes, void* to) override {
    TY_CHECK(!recording_ && met_.contains(&peer));
    Start([from, bytes, to] { std::memcpy(to, from, bytes); });
    return absl::OkStatus();
  }

  absl::Status BeginRecording() override {
    TY_CHECK(!recording_);
    recording_ = true;
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Recording>> EndRecording() override {
    class Steps final : public Recording {
     public:
      Steps(HostDevice& device, std::vector<std::function<void()>> work) : device_(device), work_(std::move(work)) {}
      absl::Status Launch() override {
        for (const std::function<void()>& work : work_) device_.Start(work);
        if (device_.counts_ != nullptr) ++device_.counts_->replayed;
        return absl::OkStatus();
      }

     private:
      HostDevice& device_;
      const std::vector<std::function<void()>> work_;
    };
    TY_CHECK(std::exchange(recording_, false) && copies_.empty());
    auto steps = std::make_unique<Steps>(*this, std::exchange(recorded_, {}));
    if (!options_.records) return absl::UnimplementedError("no recordings here");
    if (counts_ != nullptr) ++counts_->recorded;
    return steps;
  }

 private:
  struct HostMark final : Mark {
    explicit HostMark(HostDevice& its_device) : device(its_device) {}
    absl::Status Set() override {
      TY_CHECK(!device.recording_);
      if (device.stream_ != nullptr) place = device.stream_->Give([] {});
      return absl::OkStatus();
    }

    HostDevice& device;
    int64_t place = 0;  // in its stream, where it was last set
  };

  void Start(std::function<void()> work) {
    if (stream_ == nullptr) return work();
    stream_->Give(std::move(work));
  }
  void Finish() {
    if (stream_ != nullptr) stream_->Wait();
  }
  absl::Status Do(std::function<void()> work) {
    if (recording_) {
      recorded_.push_back(std::move(work));
      return absl::OkStatus();
    }
    if (counts_ != nullptr) ++counts_->started;
    Start(std::move(work));
    return absl::OkStatus();
  }

  const HostDeviceOptions options_;
  HostDeviceCounts* const counts_;
  int launches_ = 0;
  bool recording_ = false;
  std::vector<std::function<void()>> recorded_;
  std::vector<std::function<void()>> copies_;  // started, not joined
  std::set<const Device*> met_;
  std::unique_ptr<HostStream> stream_;  // null: work runs as it is given
};

}  // namespace trainyard::engine::cuda
