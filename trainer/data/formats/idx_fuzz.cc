// Any bytes, packed or not: refused with a status or read whole, never more memory than the limit.
#include "trainer/base/check.h"
#include "trainer/data/formats/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trainyard::engine;  // NOLINT(google-build-using-namespace): a fuzz target's only function
  constexpr uint64_t kLimit = 16 << 20;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  absl::StatusOr<std::unique_ptr<ByteSource>> source = Unpacked(MemorySource(bytes), "fuzz");
  TY_CHECK(source.ok());
  absl::StatusOr<IdxRecords> records = ReadIdx(**source, "fuzz", {}, kLimit);
  if (!records.ok()) return 0;
  TY_CHECK(records->bytes.size() <= kLimit);
  const auto elements = records->header.shape.elements();
  Buffer decoded(elements * sizeof(float));
  DecodeIdxAsF32(records->header.type, records->bytes.data(), {decoded.as<float>(), static_cast<size_t>(elements)});
  return 0;
}
