// Feeds arbitrary bytes, in two pieces, to the reader of messages.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/base/check.h"
#include "trainer/transport/framing.h"

using trainyard::engine::ParseMessage;
using trainyard::engine::Payload;
using trainyard::engine::Record;
using trainyard::engine::StatusOf;
using trainyard::engine::WireOp;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const size_t cut = size == 0 ? 0 : data[size - 1] % (size + 1);
  const Payload message(std::vector<std::span<const std::byte>>{bytes.first(cut), bytes.subspan(cut)}, nullptr);
  const absl::StatusOr<std::vector<Record>> records = ParseMessage(message);
  if (!records.ok()) return 0;
  size_t total = 0;
  for (const Record& record : *records) {
    TY_CHECK(record.payload.size() == record.header.length);
    TY_CHECK(Encode(record.header) == Encode(*trainyard::engine::Decode(Encode(record.header))));
    if (record.header.op == WireOp::kError) TY_CHECK(!StatusOf(record).ok());
    total += trainyard::engine::kWireHeaderBytes + record.payload.size();
  }
  TY_CHECK(total == size);
  return 0;
}
