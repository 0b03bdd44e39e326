// numpy's .npz files: zip archives of .npy files, packed or not.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "trainer/data/byte_source.h"

namespace trainyard::engine {

// What errors call an array of an archive.
inline std::string NpzArrayName(std::string_view path, std::string_view array) { return std::string(array) + " in " + std::string(path); }

// The array `array` ("x_train", with or without ".npy") of an archive. NotFound names the arrays
// that there are; a damaged archive is DataLoss, checksums included.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenNpzArray(const std::string& path, std::string_view array);
// The same from memory, which must outlive the source; without `array` the first one.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenNpzArrayInMemory(std::string_view archive, const std::string& name, std::string_view array);

}  // namespace trainyard::engine
