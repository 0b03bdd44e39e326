#include "trainer/data/formats/tfrecord_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "trainer/base/status_macros.h"
#include "trainer/tfrecord/tfrecord.h"

namespace trainyard::engine {
namespace {

constexpr uint64_t kFirstGrant = 1 << 20;

}  // namespace

absl::Status TfRecordReader::Damaged(std::string_view what) const {
  return absl::DataLossError(fmt::format("{}: record {} at byte {} is damaged: {}", name_, record_, next_, what));
}

absl::StatusOr<std::optional<std::string_view>> TfRecordReader::Next() {
  std::array<char, kTfRecordHead> head;
  TY_ASSIGN_OR_RETURN(const size_t got, source_->Read(std::as_writable_bytes(std::span(head))));
  if (got == 0) return std::nullopt;
  ++record_;
  if (got < head.size()) return Damaged(fmt::format("the file ends inside its length ({} of {} bytes)", got, head.size()));
  const absl::StatusOr<uint64_t> length = TfRecordLength({head.data(), head.size()}, max_bytes_);
  if (!length.ok()) return Damaged(std::string(length.status().message()));
  const uint64_t wanted = *length + kTfRecordOverhead - kTfRecordHead;
  const uint64_t most = source_->AtMostLeft();
  if (wanted > most) return Damaged(fmt::format("the file ends inside it ({} of its {} bytes are left)", most, wanted));
  // Memory is taken as bytes arrive: a packed file may promise more than it holds.
  size_t read = 0;
  while (read < wanted) {
    bytes_.resize(std::min<uint64_t>(wanted, std::max<uint64_t>({kFirstGrant, 2 * read, source_->AtLeastLeft()})));
    TY_ASSIGN_OR_RETURN(const size_t more, source_->Read(std::as_writable_bytes(std::span(bytes_).subspan(read))));
    read += more;
    if (read < bytes_.size()) break;
  }
  if (read < wanted) return Damaged(fmt::format("the file ends inside it ({} of its {} bytes are left)", read, wanted));
  const absl::StatusOr<std::string_view> data = TfRecordData(bytes_);
  if (!data.ok()) return Damaged(std::string(data.status().message()));
  data_begin_ = next_ + kTfRecordHead;
  next_ = data_begin_ + wanted;
  return *data;
}

}  // namespace trainyard::engine
