#include "trainer/tensor/shape.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace trainyard::engine {

std::string Shape::ToString() const { return absl::StrCat("[", absl::StrJoin(extents(), ", "), "]"); }

}  // namespace trainyard::engine
