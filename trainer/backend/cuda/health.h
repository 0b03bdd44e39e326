// Whether a device has failed.
#pragma once

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine::cuda {

// The first failure, after which nothing more is started.
class Health {
 public:
  bool well() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }
  // `call` gives a status; it is made only while all went well.
  template <typename Call>
  void Try(std::string_view what, const Call& call) {
    if (well()) status_ = WithContext(call(), what);
  }

  // Forgets a failure, which it returns: of work that can be done in another way.
  absl::Status Forget() { return std::exchange(status_, absl::OkStatus()); }

 private:
  absl::Status status_;
};

}  // namespace trainyard::engine::cuda
