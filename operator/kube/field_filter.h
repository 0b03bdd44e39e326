// FieldFilter: takes what nobody reads out of JSON text, before it is parsed. Most of an object's bytes are managedFields, pod templates'
// defaults and the like; skipping them costs a tenth of parsing them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace trainyard::control {

// What is read of an object: paths such as "spec.nodeName", with all that is below them; arrays count as no level. What identifies the
// object (kind, most of metadata) and what a Status says are read of every object. Without a value: everything but
// metadata.managedFields.
using ReadFields = std::optional<std::vector<std::string>>;

// Immutable, so thread-safe.
class FieldFilter {
 public:
  // Where in the text the objects are: the text itself, the elements of its "items", or its "object".
  enum class Where { kObject, kItems, kEvent };

  FieldFilter(const ReadFields& fields, Where where);
  // For events of objects that are gone: name, namespace, uid and version. Once these are found the rest of the text is not looked at.
  static FieldFilter OfEventsThatTellOfAnEnd();

  // Called with the filtered text of one element of the top-level array "items".
  using ItemHandler = std::function<absl::Status(std::string_view item)>;

  // Appends the filtered object to `out`. With `on_item` the elements of "items" go there one by one, and the array is left empty in `out`.
  // Reads no more of the text's structure than it has to: what it accepts is not yet JSON. InvalidArgument with the position of what cannot
  // be.
  absl::Status Apply(std::string_view text, std::string& out, const ItemHandler* on_item = nullptr) const;

 private:
  FieldFilter() = default;

  // What becomes of an object's fields. A field without a node of its own is dropped where `only_listed`, else kept whole. A listed field
  // is dropped, or kept and filtered further; one that neither lists nor drops is kept whole.
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
