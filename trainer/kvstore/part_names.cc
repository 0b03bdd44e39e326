#include "trainer/kvstore/part_names.h"

#include <fmt/format.h>

#include "trainer/kvstore/placement.h"

namespace trainyard::engine {

std::vector<std::string> PartNames(std::span<const ParameterSpec> specs, int servers) {
  std::vector<std::string> names;
  if (servers == 0) return names;
  const Placement placement = PlaceParameters(specs, servers);
  for (const Part& part : placement.parts) {
    const bool whole = part.count == specs[part.key].shape.elements();
    names.push_back(whole ? specs[part.key].name : fmt::format("{}[{}]", specs[part.key].name, part.index));
  }
  return names;
}

}  // namespace trainyard::engine
