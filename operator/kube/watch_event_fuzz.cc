// Any bytes from a watch or a list: an event, or an error, never a crash.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "operator/kube/errors.h"
#include "operator/kube/list_decoder.h"
#include "operator/kube/watch_event.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trainyard::control;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  WatchDecoder decoder(
      "watch", ReadFields({"spec.containers"}), 4096, [](WatchEventType, nlohmann::json&&) { return absl::OkStatus(); },
      [](const Unreadable&) {});
  const size_t half = size / 2;
  if (decoder.Feed(text.substr(0, half)).ok() && decoder.Feed(text.substr(half)).ok()) (void)decoder.Finish();
  ListDecoder list("list", ReadFields({"spec.a"}), 1000, [](nlohmann::json&&) { return absl::OkStatus(); }, [](const Unreadable&) {});
  if (list.Take(text.substr(0, half)) && list.Take(text.substr(half))) (void)list.Finish();
  const absl::Status status = StatusFromAnswer("get", 500, text, text.substr(0, half));
  (void)RetryAfter(status);
  return 0;
}
