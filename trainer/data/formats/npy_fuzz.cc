// Any bytes as an .npy file, packed or not, and as an .npz archive. They are refused with a status
// or read whole, never with more memory than the limit.
#include "trainer/base/check.h"
#include "trainer/data/formats/npy.h"
#include "trainer/data/formats/npz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trainyard::engine;  // NOLINT(google-build-using-namespace): a fuzz target's only function
  constexpr uint64_t kLimit = 16 << 20;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  absl::StatusOr<std::unique_ptr<ByteSource>> source =
      bytes.starts_with("PK") ? OpenNpzArrayInMemory(bytes, "fuzz", "") : Unpacked(MemorySource(bytes), "fuzz");
  if (!source.ok()) return 0;
  const absl::StatusOr<NpyArray> array = ReadNpy(**source, "fuzz", kLimit);
  if (!array.ok()) return 0;
  TY_CHECK(array->bytes.size() <= kLimit);
  TY_CHECK(array->bytes.size() == static_cast<uint64_t>(array->header.records()) * array->header.record_bytes());
  return 0;
}
