// The safetensors format: u64 little-endian header length, JSON header {name: {dtype, shape,
// data_offsets}, "__metadata__": {…}}, then raw little-endian tensor bytes. Source: the format's
// description at https://github.com/huggingface/safetensors. All of the format is on this page.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/base/disk.h"
#include "trainer/tensor/buffer.h"
#include "trainer/tensor/tensor.h"

namespace trainyard::engine {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// A parsed file that owns its bytes; the tensors point into them. Movable. Refused, with the file
// and the tensor by name:
// - a header longer than 16 MiB or than the file, or JSON that is not an object of tensors;
// - an unknown element type, a negative or overflowing extent;
// - offsets outside the data, of the wrong length, overlapping, or leaving bytes that belong to no
//   tensor.
class Safetensors {
 public:
  static absl::StatusOr<Safetensors> Read(const std::string& path);
  // `name` is what errors call the bytes.
  static absl::StatusOr<Safetensors> Parse(std::string bytes, std::string name);

  // Sorted by name.
  std::span<const NamedTensor> tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Null when there is no such tensor.
  const Tensor* Find(std::string_view name) const;
  // NotFound names the tensor, the file and what the file holds instead.
  absl::StatusOr<Tensor> Get(std::string_view name) const;

 private:
  std::string name_;
  std::unique_ptr<const std::string> bytes_;  // on the heap, so that tensors stay valid when the file object moves
  std::vector<Buffer> realigned_;             // tensors that stood at an address unfit for their element type
  std::vector<NamedTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

// The file's bytes; the widest element types first, so that every tensor is aligned. Names must be
// unique.
absl::StatusOr<std::string> SerializeSafetensors(std::span<const NamedTensor> tensors,
                                                 const std::map<std::string, std::string>& metadata = {});

// The identity of a file on disk.
struct FileDigest {
  uint64_t bytes = 0;
  std::string sha256;  // hex
};
// Writes and fsyncs the same bytes, straight from the tensors: no second copy of them is made.
absl::StatusOr<FileDigest> WriteSafetensors(const std::string& path, std::span<const NamedTensor> tensors,
                                            const std::map<std::string, std::string>& metadata = {}, Disk& disk = RealDisk());

}  // namespace trainyard::engine
