// A folder that is filled unseen and then gets its name at once, as a whole.
//
// It is filled as <parent>/.<name>.new-<random>. Where a folder of the name is there already, both
// change places in one atomic step. Where the file system cannot do that, the old one goes aside as
// .<name>.old-<random> for a moment. Readers that find neither ask StandingFolder, and the next
// writer puts it back. So at any moment, and after a kill at any moment, one whole folder can be
// found.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/base/disk.h"
#include "trainer/base/owned_fd.h"

namespace trainyard::engine {

// Movable. The destructor removes a folder that was not published, and a folder that was replaced.
class StagedFolder {
 public:
  // Makes the parents too. Leftovers of dead writers beside it are removed first, and folders that
  // they set aside get their names back. `disk` must outlive it.
  static absl::StatusOr<StagedFolder> Create(const std::string& path, Disk& disk = RealDisk());
  ~StagedFolder();
  StagedFolder(StagedFolder&& other) noexcept;
  StagedFolder& operator=(StagedFolder&&) = delete;

  // Where to fill it.
  const std::string& path() const { return staged_; }

  // It gets its name, durably. AlreadyExists: there is a folder of that name.
  absl::Status Publish();
  // The same, in place of a folder of that name.
  absl::Status Replace();

 private:
  StagedFolder(std::string path, std::string staged, OwnedFd lock, Disk& disk);
  absl::Status SetAsideAndRename();

  std::string final_;
  std::string staged_;
  std::string aside_;  // "": nothing was set aside
  OwnedFd lock_;
  Disk* disk_;
};

// The place of the folder `path` now: `path`, or the place where a writer that replaces it, or died
// doing so, set it aside. `path` itself where there is neither.
std::string StandingFolder(const std::string& path);
// "best" for ".best.old-0123456789abcdef", a folder that was set aside; every other name as it is.
std::string_view StandingName(std::string_view name);

}  // namespace trainyard::engine
