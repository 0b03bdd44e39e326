// A file of records of one size, read at any place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/base/owned_fd.h"

namespace trainyard::engine {

// Thread-safe.
class RecordFile {
 public:
  struct Layout {
    uint64_t first_byte = 0;  // of record 0
    uint64_t record_bytes = 0;
  };
  // `file_bytes` is what the file must have: DataLoss when it has not.
  static absl::StatusOr<std::unique_ptr<RecordFile>> Open(const std::string& path, const Layout& layout, uint64_t file_bytes);

  // layout.record_bytes into `out`. DataLoss names file and record when the file became shorter.
  absl::Status Read(int64_t record, std::byte* out) const;
  const std::string& path() const { return path_; }

 private:
  RecordFile(OwnedFd fd, std::string path, const Layout& layout) : fd_(std::move(fd)), path_(std::move(path)), layout_(layout) {}
  const OwnedFd fd_;
  const std::string path_;
  const Layout layout_;
};

// `count` bytes of an open file from `offset` on: those of `record`. DataLoss when `path` became
// shorter.
absl::Status ReadAt(int fd, uint64_t offset, std::byte* out, size_t count, const std::string& path, int64_t record);

}  // namespace trainyard::engine
