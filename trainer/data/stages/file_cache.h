// Examples kept in a folder once they were read: a dataset store that is made at the first need.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace trainyard::engine {

// `inner` as a store in `dir`: opened if it is there, else all of `inner` is read and written
// first. Several processes may do so at once: the first to finish wins. FailedPrecondition when the
// store is not of the same examples: other counts or types, or other numbers in the few of them
// that are compared.
absl::StatusOr<std::unique_ptr<Dataset>> CachedInFile(std::unique_ptr<Dataset> inner, const std::string& dir);

}  // namespace trainyard::engine
