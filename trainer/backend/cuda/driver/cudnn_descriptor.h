// A descriptor of cuDNN's backend: created, given attributes, finalized, then used by others.
#pragma once

#include <cudnn.h>
#include <fmt/format.h>

#include <span>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "trainer/backend/cuda/driver/cudnn.h"

namespace trainyard::engine::cuda {

// Calls after one that failed do nothing; status() tells the first failure. The functions outlive
// it.
class CudnnDescriptor {
 public:
  CudnnDescriptor(const CudnnFunctions& functions, cudnnBackendDescriptorType_t type, std::string_view what) : f_(&functions), what_(what) {
    Check(f_->descriptor_create(type, &descriptor_), "cudnnBackendCreateDescriptor");
  }
  CudnnDescriptor(CudnnDescriptor&& other) noexcept
      : f_(other.f_), what_(other.what_), descriptor_(std::exchange(other.descriptor_, nullptr)), status_(other.status_) {}
  CudnnDescriptor& operator=(CudnnDescriptor&&) = delete;
  ~CudnnDescriptor() {
    if (descriptor_ != nullptr) f_->descriptor_destroy(descriptor_);
  }

  template <typename T>
  CudnnDescriptor& Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::span<const T> values) {
    if (status_.ok()) {
      Check(f_->descriptor_set(descriptor_, name, type, static_cast<int64_t>(values.size()), static_cast<const void*>(values.data())),
            "cudnnBackendSetAttribute");
    }
    return *this;
  }
  template <typename T>
  CudnnDescriptor& Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    return Set(name, type, std::span<const T>(&value, 1));
  }
  CudnnDescriptor& Set(cudnnBackendAttributeName_t name, const CudnnDescriptor& other) {
    if (status_.ok()) status_ = other.status_;
    return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.descriptor_);
  }
  CudnnDescriptor& Finalize() {
    if (status_.ok()) Check(f_->descriptor_finalize(descriptor_), "cudnnBackendFinalize");
    return *this;
  }

  // As many values as there are and `values` has room for.
  template <typename T>
  int64_t Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::span<T> values) {
    int64_t count = 0;
    if (status_.ok()) {
      Check(f_->descriptor_get(descriptor_, name, type, static_cast<int64_t>(values.size()), &count, static_cast<void*>(values.data())),
            "cudnnBackendGetAttribute");
    }
    return status_.ok() ? std::min<int64_t>(count, static_cast<int64_t>(values.size())) : 0;
  }

  cudnnBackendDescriptor_t get() const { return descriptor_; }
  const absl::Status& status() const { return status_; }

 private:
  void Check(cudnnStatus_t status, std::string_view call) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    status_ = absl::InternalError(fmt::format("{} of {}: {}", call, what_, f_->error_string(status)));
  }

  const CudnnFunctions* f_;
  std::string_view what_;  // a literal
  cudnnBackendDescriptor_t descriptor_ = nullptr;
  absl::Status status_;
};

}  // namespace trainyard::engine::cuda
