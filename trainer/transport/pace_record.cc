#include "trainer/transport/pace_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace trainyard::engine {
namespace {

constexpr size_t kLongestNode = 253;  // of a DNS name
constexpr absl::Duration kLongestStep = absl::Hours(24 * 365);

bool IsName(const std::string& node) {
  return node.size() <= kLongestNode && std::ranges::all_of(node, [](char c) { return c > ' ' && c < '\x7f'; });
}

}  // namespace

Record WithPace(Record record, const WorkerPace& pace) {
  record.header.key = static_cast<uint32_t>(pace.worker);
  record.header.step = static_cast<uint64_t>(absl::ToInt64Nanoseconds(std::clamp(pace.step, absl::ZeroDuration(), kLongestStep)));
  record.payload = Payload::OfText(IsName(pace.node) ? pace.node : "?");
  record.header.length = static_cast<uint32_t>(record.payload.size());
  return record;
}

absl::StatusOr<WorkerPace> PaceOf(const Record& record, int workers) {
  const WireHeader& header = record.header;
  if (header.key >= static_cast<uint32_t>(workers)) {
    return absl::InvalidArgumentError(fmt::format("'pace' of worker {}, expected below {}", header.key, workers));
  }
  if (header.step > static_cast<uint64_t>(absl::ToInt64Nanoseconds(kLongestStep))) {
    return absl::InvalidArgumentError(fmt::format("'pace': a step of {} ns, expected at most a year", header.step));
  }
  if (header.length > kLongestNode) {
    return absl::InvalidArgumentError(fmt::format("'pace': a node of {} bytes, expected at most {}", header.length, kLongestNode));
  }
  WorkerPace pace{.worker = static_cast<int>(header.key),
                  .step = absl::Nanoseconds(static_cast<int64_t>(header.step)),
                  .node = record.payload.ToString()};
  if (!IsName(pace.node)) return absl::InvalidArgumentError("'pace': the node has other characters than printable ones of ASCII");
  return pace;
}

}  // namespace trainyard::engine
