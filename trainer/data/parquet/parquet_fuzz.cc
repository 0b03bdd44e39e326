// Any bytes as a Parquet file: refused with a status or read whole, never more memory than the
// limit. Arrow's libraries tell the fuzzer nothing of their branches: it sees those of the module
// and of the data set.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trainer/base/check.h"
#include "trainer/data/formats/parquet_dataset.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trainyard::engine;  // NOLINT(google-build-using-namespace): a fuzz target's only function
  // A file in memory: the reader seeks in what it opens by name.
  static const int file = ::memfd_create("fuzz", MFD_CLOEXEC);
  static const std::string path = fmt::format("/proc/self/fd/{}", file);
  TY_CHECK(::ftruncate(file, 0) == 0 && ::pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  const ParquetFiles files{
      .paths = {path}, .columns = {.image = "image", .label = "label"}, .module = TRAINYARD_PARQUET_MODULE, .max_bytes = 16 << 20};
  const auto dataset = OpenParquetDataset(files, {.example_shape = {2, 3}, .classes = 3});
  TY_CHECK(dataset.ok() ? (*dataset)->info().examples > 0 : dataset.status().message().find(path) != std::string_view::npos);
  return 0;
}
