#include "trainer/data/formats/parquet_dataset.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/data/byte_source.h"
#include "trainer/data/formats/example_table.h"
#include "trainer/data/formats/parquet_interface.h"

namespace trainyard::engine {
namespace {

constexpr size_t kErrorBytes = 1024;

std::string ModuleBesideProgram() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return (program.parent_path() / kParquetModuleFile).string();
}

// The module stays loaded: Arrow has threads and state of its own.
absl::StatusOr<ReadParquetFunction> LoadModule(const std::string& path) {
  void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    const char* why = ::dlerror();
    return absl::UnimplementedError(
        fmt::format("Parquet files are not read by this build ({}). Get Arrow by scripts/venv.sh trainer/data/parquet/requirements.txt and "
                    "build again, or convert the data: docs/data.md",
                    why != nullptr ? why : path));
  }
  auto* function = reinterpret_cast<ReadParquetFunction>(::dlsym(module, kReadParquetSymbol));
  if (function == nullptr) return absl::UnimplementedError(fmt::format("{} does not read Parquet: it has no {}", path, kReadParquetSymbol));
  return function;
}

using RowSeen = std::function<absl::Status(const Elements& image, const Elements& label)>;

struct Reading {
  const RowSeen& row;
  absl::Status status;
};

bool TakeRow(void* context, const Elements& image, const Elements& label) {
  auto& reading = *static_cast<Reading*>(context);
  reading.status = reading.row(image, label);
  return reading.status.ok();
}

absl::Status ReadRows(ReadParquetFunction read, const std::string& path, const FeatureNames& columns, uint64_t max_bytes,
                      const RowSeen& row) {
  TY_RETURN_IF_ERROR(OpenFileSource(path).status());
  Reading reading{.row = row, .status = absl::OkStatus()};
  std::array<char, kErrorBytes> error{};
  const ParquetRequest request{.path = path.c_str(),
                               .image = columns.image.c_str(),
                               .label = columns.label.c_str(),
                               .max_bytes = max_bytes,
                               .row = TakeRow,
                               .context = &reading,
                               .error = error.data(),
                               .error_bytes = error.size()};
  if (read(&request)) return absl::OkStatus();
  TY_RETURN_IF_ERROR(reading.status);
  return absl::DataLossError(fmt::format("{} cannot be read as Parquet: {}", path, error.data()));
}

}  // namespace

absl::Status ReadParquetRows(const std::string& path, const FeatureNames& columns, const RowSeen& row) {
  TY_ASSIGN_OR_RETURN(const ReadParquetFunction read, LoadModule(ModuleBesideProgram()));
  return ReadRows(read, path, columns, ParquetFiles().max_bytes, row);
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenParquetDataset(const ParquetFiles& files, const ExpectedData& expected) {
  TY_CHECK(!files.paths.empty());
  TY_ASSIGN_OR_RETURN(const ReadParquetFunction read, LoadModule(files.module.empty() ? ModuleBesideProgram() : files.module));
  ExampleTable table(expected, files.range, files.max_bytes);
  for (const std::string& path : files.paths) {
    table.BeginFile(path);
    TY_RETURN_IF_ERROR(ReadRows(read, path, files.columns, files.max_bytes,
                                [&table](const Elements& image, const Elements& label) { return table.Append(image, label); }));
  }
  return std::move(table).Finish(files.paths.size() == 1 ? files.paths[0]
                                                         : fmt::format("{} and {} more", files.paths[0], files.paths.size() - 1));
}

}  // namespace trainyard::engine
