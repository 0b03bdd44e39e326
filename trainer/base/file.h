// Files as whole strings, written so that a crash or a full disk leaves the old file or the new one, never half of one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace trainyard::engine {

// errno as a status whose code says what to do: NotFound, PermissionDenied, AlreadyExists, ResourceExhausted (disk or quota full) or
// Internal. The message is "cannot <action> <path>: <reason>".
absl::Status FileError(int error, std::string_view action, std::string_view path);

// The whole file. FailedPrecondition when it is longer than `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes = int64_t{1} << 30);
// Writes and fsyncs `path` in place: for files in a folder that nobody reads yet.
absl::Status WriteFileDurably(const std::string& path, std::string_view bytes);
// Writes a temporary file beside `path`, fsyncs it, renames it over `path` and fsyncs the folder.
absl::Status ReplaceFile(const std::string& path, std::string_view bytes);
// mkdir -p.
absl::Status MakeDirectories(const std::string& path);
// fsync of a folder, which makes creations and renames in it durable.
absl::Status SyncDirectory(const std::string& path);

}  // namespace trainyard::engine
