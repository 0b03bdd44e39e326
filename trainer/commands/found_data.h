// A data set that was found on disk, and the job file that trains on it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

struct FoundData {
  std::string name;                  // of the job
  std::string summary;               // "300 pictures of 3 classes (cat, dog, fox)"
  std::vector<std::string> notes{};  // what the user may not expect, a sentence each
  std::vector<std::string> data;     // lines of YAML below `data:`
  int64_t examples = 0;
  Shape input;             // of the model
  int64_t classes = 0;     // 0: the label is a number
  int64_t vocabulary = 0;  // > 0: text, of at most so many different characters
};

// Looks at a folder, or at a file, and tells what it holds: pictures in class folders, CIFAR-10,
// IDX, .npz, TFRecord, Parquet, CSV, or text, in this order. NotFound: none of them; it names what
// was looked for. InvalidArgument: all labels are of one class. Errors of a data set that is there
// but damaged name the file. `label` as FindLabelColumn has it.
absl::StatusOr<FoundData> FindData(const std::string& path, const std::string& label = "");

// What errors call JobText: it is no file yet.
inline constexpr char kFoundJob[] = "the job that init writes";

// A job file with comments, and a small model that fits. Pure.
std::string JobText(const FoundData& found);

}  // namespace trainyard::engine
