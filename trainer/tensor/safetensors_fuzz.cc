// Any bytes: refused with a status or parsed into tensors whose every byte can be read and that
// survive being written again.
#include "trainer/base/check.h"
#include "trainer/tensor/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trainyard::engine;  // NOLINT(google-build-using-namespace): a fuzz target's only function
  absl::StatusOr<Safetensors> file = Safetensors::Parse(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!file.ok()) return 0;
  unsigned sum = 0;
  for (const NamedTensor& named : file->tensors()) {
    const auto* bytes = static_cast<const uint8_t*>(named.tensor.data);
    for (size_t i = 0; i < named.tensor.bytes(); ++i) sum += bytes[i];
  }
  absl::StatusOr<std::string> again = SerializeSafetensors(file->tensors(), file->metadata());
  TY_CHECK(again.ok());
  absl::StatusOr<Safetensors> copy = Safetensors::Parse(*std::move(again), "fuzz again");
  TY_CHECK(copy.ok() && copy->tensors().size() == file->tensors().size());
  return sum == 1 ? 0 : 0;
}
