// Records that workers and servers send each other: both sides make them and check them alike.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/kvstore/placement.h"
#include "trainer/kvstore/row_payload.h"
#include "trainer/tensor/compression.h"
#include "trainer/tensor/parameter_set.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// Thread-safe. Specs and placement must outlive it.
class PartRecords {
 public:
  // `sender`: the rank of this side (ranks.h). `compression`: of pushes and their answers.
  PartRecords(const std::vector<ParameterSpec>& specs, const Placement& placement, uint32_t sender,
              Compression compression = Compression::kNone)
      : specs_(specs), placement_(placement), sender_(sender), compression_(compression), fingerprint_(FingerprintOf(specs)) {}

  // Of the model: the same on both sides.
  uint64_t fingerprint() const { return fingerprint_; }
  // A header from this side; `epoch`: the server's incarnation.
  WireHeader Header(WireOp op, uint32_t epoch) const;
  // A record without a payload.
  Record Control(WireOp op, uint32_t epoch, int64_t step = 0, uint32_t flags = 0) const;
  // `record` with a text as its payload.
  static Record WithText(Record record, const std::string& text);
  // `header` with the fields that say which part this is.
  WireHeader HeaderFor(WireHeader header, int part) const;
  // A record of part `part` with `payload`: `header` with the fields that say which part this is.
  Record Make(WireHeader header, int part, Payload payload) const;

  // The part that a header speaks of, as an index into Placement::parts. `server` must hold the
  // part, and the header must give its range exactly; how long rows may be is for RowsIn to say.
  // InvalidArgument names the tensor, what was found and what was expected.
  absl::StatusOr<int> Find(const WireHeader& header, int server) const;
  // Which rows of part `part` the payload holds; nothing: all values. InvalidArgument names tensor
  // and part.
  absl::StatusOr<std::optional<std::vector<int32_t>>> RowsIn(const Record& record, int part) const;

  const std::string& TensorOf(int part) const { return SpecOf(part).name; }
  // As the part is pushed and answered.
  PartRows RowsOf(int part) const { return {SpecOf(part), placement_.parts[part], TravelType(SpecOf(part), compression_)}; }

 private:
  const ParameterSpec& SpecOf(int part) const { return specs_[placement_.parts[part].key]; }
  // The range of a part in its tensor, in bytes of what a record of this kind has.
  struct Place {
    DType type = DType::kF32;
    uint64_t offset = 0;
    uint64_t length = 0;
  };
  Place PlaceOf(WireOp op, int part) const;

  const std::vector<ParameterSpec>& specs_;
  const Placement& placement_;
  const uint32_t sender_;
  const Compression compression_;
  const uint64_t fingerprint_;
};

}  // namespace trainyard::engine
