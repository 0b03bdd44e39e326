// A folder with a folder of pictures for each class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace trainyard::engine {

// The names of the folders in `dir`, sorted by their bytes; names that begin with a dot do not
// count. InvalidArgument: fewer than two, a name that is no class name, or folders that are splits
// (train, test …) instead of classes.
absl::StatusOr<std::vector<std::string>> ClassFoldersOf(const std::string& dir);

struct ImageFile {
  std::string path;  // below the folder
  int32_t label = 0;
};

struct ImageFolder {
  std::string dir;
  std::vector<std::string> classes;  // by number
  bool every_class = true;           // each class needs a picture
};

// All .png, .jpg and .jpeg files below the classes' folders, at any depth, through links to files
// and folders. They are sorted by class and path. Names that begin with a dot do not count. Other
// files are left out, and the log says so. InvalidArgument names a folder that is none of the
// classes, a class without pictures, a picture of another format, a link into its own folder, or a
// link that leads nowhere.
absl::StatusOr<std::vector<ImageFile>> ListImages(const ImageFolder& folder);

}  // namespace trainyard::engine
