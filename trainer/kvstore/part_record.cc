#include "trainer/kvstore/part_record.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/tensor/dtype.h"

namespace trainyard::engine {

WireHeader PartRecords::Header(WireOp op, uint32_t epoch) const {
  WireHeader header;
  header.op = op;
  header.epoch = epoch;
  header.sender = sender_;
  header.fingerprint = fingerprint_;
  return header;
}

Record PartRecords::Control(WireOp op, uint32_t epoch, int64_t step, uint32_t flags) const {
  Record record{.header = Header(op, epoch)};
  record.header.step = static_cast<uint64_t>(step);
  record.header.flags = flags;
  return record;
}

Record PartRecords::WithText(Record record, const std::string& text) {
  record.payload = Payload::OfText(text);
  record.header.length = static_cast<uint32_t>(record.payload.size());
  return record;
}

PartRecords::Place PartRecords::PlaceOf(WireOp op, int index) const {
  const Part& part = placement_.parts[index];
  const bool compressed = op == WireOp::kPush || op == WireOp::kParameters;
  const DType type = compressed ? TravelType(SpecOf(index), compression_) : DType::kF32;
  return {
      .type = type, .offset = static_cast<uint64_t>(part.begin) * SizeOf(type), .length = static_cast<uint64_t>(part.count) * SizeOf(type)};
}

WireHeader PartRecords::HeaderFor(WireHeader header, int index) const {
  const Part& part = placement_.parts[index];
  const Place place = PlaceOf(header.op, index);
  header.key = static_cast<uint32_t>(part.key);
  header.part = static_cast<uint32_t>(part.index);
  header.dtype = static_cast<uint8_t>(place.type);
  header.offset = place.offset;
  header.length = static_cast<uint32_t>(place.length);
  return header;
}

Record PartRecords::Make(WireHeader header, int part, Payload payload) const {
  Record record{.header = HeaderFor(header, part), .payload = std::move(payload)};
  record.header.length = static_cast<uint32_t>(record.payload.size());
  return record;
}

absl::StatusOr<int> PartRecords::Find(const WireHeader& header, int server) const {
  if (header.key >= specs_.size()) {
    return absl::InvalidArgumentError(
        fmt::format("'{}': key is {}, expected 0 to {}", WireOpName(header.op), header.key, specs_.size() - 1));
  }
  const std::string& tensor = specs_[header.key].name;
  const int first = placement_.first_of_key[header.key];
  const auto count = static_cast<uint32_t>(placement_.first_of_key[header.key + 1] - first);
  if (header.part >= count || placement_.parts[first + header.part].server != server) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' of '{}': part {} of {} is not on this server", WireOpName(header.op), tensor, header.part, count));
  }
  const Place place = PlaceOf(header.op, first + static_cast<int>(header.part));
  uint64_t length = place.length;
  if (header.op == WireOp::kPush && header.slot == 0) {
    length = 0;
  } else if ((header.op == WireOp::kPush || header.op == WireOp::kParameters) && (header.flags & kWireFlagRows) != 0) {
    length = header.length;
  }
  if (header.dtype != static_cast<uint8_t>(place.type) || header.offset != place.offset || header.length != length) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' of '{}' part {}: found dtype {}, {} bytes at {}, expected dtype {} ({}), {} bytes at {}", WireOpName(header.op),
                    tensor, header.part, header.dtype, header.length, header.offset, static_cast<int>(place.type), DTypeName(place.type),
                    length, place.offset));
  }
  return first + static_cast<int>(header.part);
}

absl::StatusOr<std::optional<std::vector<int32_t>>> PartRecords::RowsIn(const Record& record, int part) const {
  if ((record.header.flags & kWireFlagRows) == 0) return std::nullopt;
  absl::StatusOr<std::vector<int32_t>> rows = ParseRowPayload(RowsOf(part), record.payload);
  if (rows.ok()) return *std::move(rows);
  return WithContext(rows.status(), fmt::format("'{}' of '{}' part {}", WireOpName(record.header.op), TensorOf(part), record.header.part));
}

}  // namespace trainyard::engine
