#include "trainer/checkpoint/carried_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>
#include <vector>

#include "trainer/base/file.h"
#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/tensor/safetensors.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStatePrefix = "step-";
constexpr std::string_view kStateSuffix = ".safetensors";

}  // namespace

std::string StateSlot(int device) { return device == 0 ? "" : fmt::format("device-{}", device); }

std::string StatePlace(const SamplerOptions& options, const SamplerPosition& position) {
  return fmt::format("epoch {}, example {} of {}, worker {} of {}, {} rows of {} steps", position.epoch, position.offset, options.examples,
                     options.worker, options.workers, options.batch_size, options.stream_steps);
}

WorkerStateStore::WorkerStateStore(const std::string& checkpoint_dir, int rank, int keep)
    : dir_(fmt::format("{}/state-worker-{}", checkpoint_dir, rank)), keep_(keep) {}

std::string WorkerStateStore::PathOf(int64_t step) const { return fmt::format("{}/{}{}{}", dir_, kStatePrefix, step, kStateSuffix); }

bool WorkerStateStore::Has(int64_t step) const {
  std::error_code ignored;  // a file that cannot be looked at cannot be read either
  return fs::exists(PathOf(step), ignored);
}

absl::Status WorkerStateStore::Save(int64_t step, const std::string& place, const ParameterSet& state) const {
  std::vector<NamedTensor> tensors;
  AppendTensors(state, "", tensors);
  TY_ASSIGN_OR_RETURN(const std::string bytes, SerializeSafetensors(tensors, {{kStatePlace, place}}));
  TY_RETURN_IF_ERROR(MakeDirectories(dir_));
  TY_RETURN_IF_ERROR(ReplaceFile(PathOf(step), bytes));
  RemoveOldOnes(step);
  return absl::OkStatus();
}

void WorkerStateStore::RemoveOldOnes(int64_t newest) const {
  std::vector<std::pair<int64_t, fs::path>> files;
  std::error_code error;
  for (fs::directory_iterator it(dir_, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(kStatePrefix) || !name.ends_with(kStateSuffix)) continue;
    int64_t step = 0;
    const auto [last, wrong] = std::from_chars(name.data() + kStatePrefix.size(), name.data() + name.size() - kStateSuffix.size(), step);
    if (wrong == std::errc() && last == name.data() + name.size() - kStateSuffix.size()) files.emplace_back(step, it->path());
  }
  if (error) LogWarning("cannot list {}; old states are not removed: {}", dir_, error.message());
  std::ranges::sort(files, std::greater());
  int kept = 0;
  for (const auto& [step, path] : files) {
    // As with checkpoints: steps beyond the newest belong to a line of training that was given up.
    if (step <= newest && kept++ < keep_) continue;
    std::error_code removal;
    fs::remove(path, removal);
    if (removal) LogWarning("cannot remove old state {}: {}", path.string(), removal.message());
  }
}

absl::Status WorkerStateStore::Load(int64_t step, const std::string& place, ParameterSet& state) const {
  const std::string path = PathOf(step);
  TY_ASSIGN_OR_RETURN(const Safetensors file, Safetensors::Read(path));
  const auto found = file.metadata().find(kStatePlace);
  if (found == file.metadata().end()) return absl::DataLossError(fmt::format("{} does not name its place in the training", path));
  if (found->second != place) {
    return absl::FailedPreconditionError(fmt::format("{} is of {}, expected {}", path, found->second, place));
  }
  for (int key = 0; key < state.size(); ++key) {
    const ParameterSpec& spec = state.spec(key);
    TY_ASSIGN_OR_RETURN(const Tensor tensor, file.Get(spec.name));
    if (tensor.dtype != DType::kF32 || tensor.shape != spec.shape) {
      return absl::InvalidArgumentError(fmt::format("{}: tensor '{}' is {} {}, the model has F32 {}", path, spec.name,
                                                    DTypeName(tensor.dtype), tensor.shape.ToString(), spec.shape.ToString()));
    }
    std::ranges::copy(tensor.values<const float>(), state.values(key).begin());
  }
  return absl::OkStatus();
}

}  // namespace trainyard::engine
