#include "trainer/checkpoint/old_checkpoint.h"

#include <vector>

#include "trainer/base/status_macros.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/job/output_folders.h"
#include "trainer/model/build_graph.h"

namespace trainyard::engine {

absl::Status CheckOldCheckpoint(const std::string& output, const TrainingConfig& config) {
  TY_ASSIGN_OR_RETURN(const std::vector<ParameterSpec> specs, ParameterSpecsOf(config.model));
  return CheckpointStore(CheckpointFolder(output, config), /*keep=*/1).CheckNewest(FingerprintOf(specs), config.model.name);
}

}  // namespace trainyard::engine
