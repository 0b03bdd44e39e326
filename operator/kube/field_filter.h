// FieldFilter: takes the fields that are not read out of JSON text, before it is parsed. Most of an
// object's bytes are managedFields, pod templates' defaults and the like. Skipping them costs a
// tenth of parsing them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace trainyard::control {

// The parts of an object that are read: paths such as "spec.nodeName", with all that is below them.
// Arrays do not count as a level. Kind, most of metadata and the fields of a Status are read of
// every object. Without a value: everything but metadata.managedFields.
using ReadFields = std::optional<std::vector<std::string>>;

// Immutable, so thread-safe.
class FieldFilter {
 public:
  // Where in the text the object is: the text itself, or its "object".
  enum class Where { kObject, kEvent };

  FieldFilter(const ReadFields& fields, Where where);
  // For events of objects that are gone: name, namespace, uid and version. Once these are found the
  // rest of the text is not looked at.
  static FieldFilter OfEventsThatTellOfAnEnd();

  // Appends the filtered object to `out`. Reads no more of the text's structure than it has to: an
  // accepted text may still be invalid JSON. InvalidArgument names the position of an error.
  absl::Status Apply(std::string_view text, std::string& out) const;

 private:
  FieldFilter() = default;

  // The fate of an object's fields. A field without a node of its own is dropped where
  // `only_listed`, else kept whole. A listed field is dropped, or kept and filtered further. A
  // field whose node neither lists nor drops is kept whole.
  struct Node {
    bool drop = false;
    bool only_listed = false;
    std::vector<std::pair<std::string, std::unique_ptr<Node>>> fields;

    Node* Find(std::string_view name) const;
    Node& At(std::string_view name);
  };
  class Scanner;

  static void Keep(Node& object, std::string_view path);

  Node root_;
  size_t enough_ = 0;  // so many listed fields end the pass; 0: none do
};

}  // namespace trainyard::control
