// The column of a table that `init` takes for the label.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/csv/csv_table.h"

namespace trainyard::engine {

// The columns of `header` that another file has not; none where either has no header.
std::vector<std::string> LackingIn(const std::vector<std::string>& other_header, const std::vector<std::string>& header);

// `wanted`: its name in the header, or its number from 0. "": the one column that the file beside
// the training's lacks, as test.csv of a competition does; else a column named label, class,
// target, y, species or category; else the last one that is not empty. `other_header`: of that
// file; empty: there is none. InvalidArgument: no column is `wanted`.
absl::StatusOr<size_t> FindLabelColumn(const CsvTable& table, const std::string& wanted, const std::vector<std::string>& other_header);

}  // namespace trainyard::engine
