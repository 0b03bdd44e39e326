#include "trainer/model/initializer.h"

#include <vector>

#include "trainer/base/check.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/layers/start_value.h"

namespace trainyard::engine {

void InitializeParameters(const ModelSpec& spec, uint64_t seed, ParameterSet& parameters) {
  const absl::StatusOr<std::vector<StartValue>> starts = StartValuesOf(spec);
  TY_CHECK(starts.ok() && static_cast<int>(starts->size()) == parameters.size());
  for (int key = 0; key < parameters.size(); ++key) {
    Initialize((*starts)[key], seed, parameters.spec(key).name, parameters.spec(key).shape, parameters.values(key));
  }
}

}  // namespace trainyard::engine
