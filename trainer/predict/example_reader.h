// The examples of one file, one after the other, in memory that does not grow with the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/data_config.h"
#include "trainer/data/text/vocabulary.h"
#include "trainer/picture/fit_image.h"
#include "trainer/tensor/dtype.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

// The examples that the model takes, and the differences that a file may have.
struct ExampleForm {
  Shape shape;                             // of one example
  ImageFit fit = ImageFit::kExact;         // of pictures
  const DataConfig* columns = nullptr;     // files are CSV text with the columns of a training on this; else null
  const Vocabulary* vocabulary = nullptr;  // files are texts of its tokens; else null
};

struct Example {
  DType dtype = DType::kF32;     // kU8: bytes, which are divided by 255 as training data's are; kI32: tokens of a text; else kF32
  std::vector<std::byte> bytes;  // of ExampleForm::shape, in C order; of a text all its tokens
  int64_t index = -1;            // in its file, from 0; -1: the file has one
};

// Not thread-safe.
class ExampleReader {
 public:
  virtual ~ExampleReader() = default;
  // Fills `example`; false at the end. An error names what was found and expected, without the
  // file's name. More examples may follow an error: call Next until it gives false.
  virtual absl::StatusOr<bool> Next(Example& example) = 0;
};

// True where `found` may stand for `wanted`: they are equal but for extents of 1, or `found` is
// flat.
bool IsOneExample(const Shape& found, const Shape& wanted);

}  // namespace trainyard::engine
