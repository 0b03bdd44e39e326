// Lines of JSON as examples.
#pragma once

#include <istream>
#include <memory>

#include "trainer/predict/example_reader.h"

namespace trainyard::engine {

// An array of numbers on each line, nested as the model's input or flat. Empty lines do not count.
// `lines` must outlive the reader.
std::unique_ptr<ExampleReader> ReadJsonLines(std::istream& lines, const ExampleForm& form);

}  // namespace trainyard::engine
