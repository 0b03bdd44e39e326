// Files as whole strings, written so that a crash or a full disk leaves the old file or the new
// one, never half of one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/base/disk.h"
#include "trainer/base/file_error.h"

namespace trainyard::engine {

// The whole file. FailedPrecondition when it is longer than `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes = int64_t{1} << 30);
// Writes and fsyncs `path` in place: for files in a folder that nobody reads yet. A file that
// cannot be written whole is removed.
absl::Status WriteFileDurably(const std::string& path, std::string_view bytes, Disk& disk = RealDisk());
// Writes a temporary file beside `path`, fsyncs it, renames it over `path` and fsyncs the folder.
// Several processes may do so at once: the last one's file stays. Temporary files of writers that
// died are removed first.
absl::Status ReplaceFile(const std::string& path, std::string_view bytes, Disk& disk = RealDisk());
// An error that may pass (file_error.h) is told as "<what> is not written: …", and becomes OK: for
// files that a training can do without.
absl::Status TellIfMayPass(const absl::Status& status, std::string_view what);
// mkdir -p.
absl::Status MakeDirectories(const std::string& path);

}  // namespace trainyard::engine
