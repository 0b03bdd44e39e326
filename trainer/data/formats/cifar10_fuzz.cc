// Any bytes: refused with a status or read whole.
#include <algorithm>

#include "trainer/base/check.h"
#include "trainer/data/formats/cifar10.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trainyard::engine;  // NOLINT(google-build-using-namespace): a fuzz target's only function
  constexpr uint64_t kLimit = 1 << 20;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  absl::StatusOr<std::unique_ptr<ByteSource>> source = Unpacked(MemorySource(bytes), "fuzz");
  TY_CHECK(source.ok());
  CifarRecords records;
  const absl::Status status = AppendCifar10(**source, "fuzz", 10, kLimit, records);
  TY_CHECK(records.images.size() <= kLimit && records.images.size() == records.labels.size() * kCifarPixels);
  TY_CHECK(std::ranges::all_of(records.labels, [](int32_t label) { return label >= 0 && label < 10; }));
  TY_CHECK(!status.ok() || !records.labels.empty());
  return 0;
}
