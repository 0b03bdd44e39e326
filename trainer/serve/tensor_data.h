// Checks of one tensor of a request, and its data as numbers or texts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/serve/input_tensor.h"
#include "trainer/serve/served_examples.h"

namespace trainyard::engine {

// InvalidArgument: "<field>.<name>: found …, expected …".
absl::Status FieldError(const InputTensor& tensor, std::string_view name, std::string_view message);

// The product of the shape. InvalidArgument: an extent is negative, there are more than Shape's
// rank, or the product is more than any request holds.
absl::StatusOr<int64_t> ElementsOf(const InputTensor& tensor);

// The tensor's numbers, `elements` of them, as bytes (UINT8) or f32. InvalidArgument: another
// datatype, data of another length, a number out of the datatype's range or not finite.
absl::StatusOr<ServedExamples> NumbersOf(const InputTensor& tensor, int64_t elements);

// One text for each element: a text as it is, a number in as many digits as give it again, "" for
// null.
// InvalidArgument: another datatype, data that are not of it or of another length, or raw elements
// that do not end where a text ends.
absl::StatusOr<std::vector<std::string>> TextsOf(const InputTensor& tensor, int64_t elements);

}  // namespace trainyard::engine
