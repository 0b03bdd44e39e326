// Any text as a store's manifest: refused with a status, or read as a manifest that comes back from
// its own JSON.
#include "trainer/base/check.h"
#include "trainer/data/store/store_manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trainyard::engine;  // NOLINT(google-build-using-namespace): a fuzz target's only function
  const auto manifest = ParseManifest({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!manifest.ok()) return 0;
  const auto again = ParseManifest(ManifestJson(*manifest), "fuzz");
  TY_CHECK(again.ok());
  TY_CHECK(ManifestJson(*again) == ManifestJson(*manifest));
  return 0;
}
