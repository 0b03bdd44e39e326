#include "trainer/backend/backend.h"

#include "trainer/backend/device_group.h"
#include "trainer/backend/device_optimizer.h"
#include "trainer/backend/device_training.h"
#include "trainer/base/memory_for.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine {
namespace {

class HostMemory final : public DeviceMemory {
 public:
  explicit HostMemory(size_t bytes) : buffer_(bytes) {}
  std::byte* data() override { return buffer_.data(); }

 private:
  Buffer buffer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateOnHost(std::string_view what, size_t bytes) {
  return WithMemoryFor(what, static_cast<int64_t>(bytes),
                       [&]() -> absl::StatusOr<std::unique_ptr<DeviceMemory>> { return std::make_unique<HostMemory>(bytes); });
}

absl::StatusOr<std::unique_ptr<DeviceTraining>> Backend::MakeDeviceTraining(const DeviceTrainingOptions& /*options*/) { return nullptr; }

absl::StatusOr<std::unique_ptr<DeviceOptimizer>> Backend::MakeDeviceOptimizer(const DeviceTrainingOptions& /*options*/) { return nullptr; }

absl::StatusOr<std::unique_ptr<DeviceGroup>> Backend::MakeDeviceGroup(std::span<Backend* const> /*others*/,
                                                                      const DeviceTrainingOptions& /*options*/) {
  return nullptr;
}

}  // namespace trainyard::engine
