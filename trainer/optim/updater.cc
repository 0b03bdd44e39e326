#include "trainer/optim/updater.h"

#include <fmt/format.h>

#include "absl/strings/cord.h"

namespace trainyard::engine {
namespace {

constexpr char kRolledBackUrl[] = "trainyard.dev/rolled-back";

}  // namespace

absl::Status RolledBack(std::string_view reason) {
  absl::Status status = absl::AbortedError(fmt::format("the training is rolled back: {}", reason));
  status.SetPayload(kRolledBackUrl, absl::Cord());
  return status;
}

bool IsRolledBack(const absl::Status& status) { return status.GetPayload(kRolledBackUrl).has_value(); }

}  // namespace trainyard::engine
