// A list's bytes → its items, one by one: however long the list, no more than one item of it is
// held.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operator/kube/field_filter.h"
#include "operator/kube/transport.h"
#include "operator/kube/unreadable.h"

namespace trainyard::control {

// Takes the pieces in which a list's body arrives, cut anywhere. Not thread-safe.
class ListDecoder : public BodySink {
 public:
  using ItemHandler = std::function<absl::Status(nlohmann::json&&)>;

  // `fields` are those that are read of each item; of the list itself all are. An item that is
  // longer than `max_item_bytes`, nested too deeply or no object goes to `on_unreadable`; the
  // others follow.
  ListDecoder(std::string what, const ReadFields& fields, size_t max_item_bytes, ItemHandler on_item, UnreadableHandler on_unreadable);

  void Begin() override;
  // False once a handler's error has ended the list.
  bool Take(std::string_view bytes) override;
  const absl::Status& problem() const { return problem_; }
  // At the end of the body: the list without its items. The handler's error, else DataLoss when
  // the body is not a list.
  absl::StatusOr<nlohmann::json> Finish();

 private:
  void Scan(std::string_view bytes);
  void Keep(std::string_view bytes);
  void EndItem();

  const std::string what_;
  const FieldFilter filter_;  // of the items
  const size_t max_item_bytes_;
  const ItemHandler on_item_;
  const UnreadableHandler on_unreadable_;

  absl::Status problem_;
  std::string rest_;  // the list without its items
  std::string item_;  // as much of the item under way as is allowed
  bool item_too_long_ = false;
  std::string text_;  // the beginning of the last string in the list itself: its key
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool in_items_ = false;
};

}  // namespace trainyard::control
