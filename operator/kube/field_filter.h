// FieldFilter: takes fields that nobody reads out of JSON text, before it is parsed. Half of a pod's bytes are managedFields and the like;
// skipping them costs a tenth of parsing them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace trainyard::control {

// Immutable, so thread-safe.
class FieldFilter {
 public:
  // `fields`: paths as ReadOptions has them, below `prefix` ("object", "items", or ""); metadata.managedFields is always among them.
  FieldFilter(const std::vector<std::string>& fields, std::string_view prefix);

  // Called with the filtered text of one element of the top-level array "items".
  using ItemHandler = std::function<absl::Status(std::string_view item)>;

  // Appends the filtered object to `out`. With `on_item` the elements of "items" go there one by one, and the array is left empty in `out`.
  // Reads no more of the text's structure than it has to: what it accepts is not yet JSON. InvalidArgument with the position of what cannot
  // be.
  absl::Status Apply(std::string_view text, std::string& out, const ItemHandler* on_item = nullptr) const;

 private:
  struct Node {
    bool drop = false;
    std::map<std::string, std::unique_ptr<Node>, std::less<>> children;
  };
  class Scanner;

  void Add(std::string_view path);

  Node root_;
};

}  // namespace trainyard::control
