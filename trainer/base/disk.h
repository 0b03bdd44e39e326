// The calls that durable files make to a file system, so that tests can give a slow or a full one,
// or end the process.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace trainyard::engine {

// A file that is written front to back. Its destructor closes it.
class FileSink {
 public:
  virtual ~FileSink() = default;
  virtual absl::Status Append(std::string_view bytes) = 0;
  // fsync: all appended bytes are durable.
  virtual absl::Status Sync() = 0;
};

// Thread-safe. Errors are FileError's (file_error.h).
class Disk {
 public:
  virtual ~Disk() = default;
  // Makes the file, or empties it. While the sink lives, abandoned.h sees a live writer.
  virtual absl::StatusOr<std::unique_ptr<FileSink>> Create(const std::string& path) = 0;
  // Atomic. A folder replaces nothing but an empty folder: AlreadyExists.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // Two names change their files or folders, in one atomic step. Unimplemented: this file system
  // cannot.
  virtual absl::Status Exchange(const std::string& a, const std::string& b) = 0;
  // fsync of a folder, which makes creations and renames in it durable.
  virtual absl::Status SyncFolder(const std::string& path) = 0;
};

// The system's.
Disk& RealDisk();

}  // namespace trainyard::engine
