#include "operator/kube/object_parser.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "operator/base/status_macros.h"

namespace trainyard::control {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxKeptBuffer = 64 << 10;

absl::StatusOr<Json> Parse(std::string_view text) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

}  // namespace

absl::StatusOr<Json> ParseObject(std::string_view text, const FieldFilter& filter) {
  // Watches parse thousands of objects of a few kB one after the other: the buffer is kept, unless
  // an object was unusually large.
  thread_local std::string kept;
  kept.clear();
  if (kept.capacity() > kMaxKeptBuffer) kept.shrink_to_fit();
  TY_RETURN_IF_ERROR(filter.Apply(text, kept));
  return Parse(kept);
}

}  // namespace trainyard::control
