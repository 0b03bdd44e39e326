#include "trainer/tensor/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "trainer/base/file.h"
#include "trainer/base/sha256.h"
#include "trainer/base/status_macros.h"
#include "trainer/base/strict_json.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "tensor bytes are used as they stand in the file");

constexpr size_t kLengthBytes = 8;
constexpr size_t kAlignment = 8;
constexpr uint64_t kMaxHeaderBytes = uint64_t{16} << 20;
constexpr int64_t kMaxFileBytes = int64_t{1} << 40;
constexpr size_t kPiece = 1 << 20;  // digested and written while it is in the cache
constexpr std::string_view kMetadata = "__metadata__";

struct Entry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

absl::Status Bad(std::string_view file, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("{} is not a valid safetensors file: {}", file, what));
}

absl::StatusOr<json> ParseHeader(std::string_view file, std::string_view text) {
  absl::StatusOr<json> header = ParseStrictJson(text, kMaxHeaderBytes);
  if (!header.ok()) return Bad(file, fmt::format("its header: {}", std::string(header.status().message())));
  if (!header->is_object()) return Bad(file, "its header is not a JSON object");
  return header;
}

absl::StatusOr<Shape> ParseShape(std::string_view file, std::string_view tensor, const json& value) {
  if (!value.is_array()) return Bad(file, fmt::format("tensor '{}' has no array 'shape'", tensor));
  if (value.size() > Shape::kMaxRank) {
    return Bad(file, fmt::format("tensor '{}' has {} axes, at most {} are supported", tensor, value.size(), Shape::kMaxRank));
  }
  std::vector<int64_t> extents;
  int64_t elements = 1;
  for (const json& extent : value) {
    if (!extent.is_number_unsigned() || extent.get<uint64_t>() > uint64_t{INT64_MAX}) {
      return Bad(file, fmt::format("tensor '{}' has an extent that is not a whole number", tensor));
    }
    extents.push_back(extent.get<int64_t>());
    // An extent of 0 must not hide an overflow of the others: offsets are computed from every
    // prefix.
    if (__builtin_mul_overflow(elements, std::max<int64_t>(extents.back(), 1), &elements) || elements > INT64_MAX / 8) {
      return Bad(file, fmt::format("tensor '{}' has a shape with more elements than memory can hold", tensor));
    }
  }
  return Shape(std::span<const int64_t>(extents));
}

absl::StatusOr<Entry> ParseEntry(std::string_view file, const std::string& name, const json& value, uint64_t data_bytes) {
  Entry entry;
  entry.name = name;
  if (!value.is_object()) return Bad(file, fmt::format("tensor '{}' is not described by a JSON object", name));
  auto dtype = value.find("dtype");
  if (dtype == value.end() || !dtype->is_string()) return Bad(file, fmt::format("tensor '{}' has no string 'dtype'", name));
  absl::StatusOr<DType> parsed = ParseDType(dtype->get<std::string>());
  if (!parsed.ok()) return Bad(file, fmt::format("tensor '{}': {}", name, std::string(parsed.status().message())));
  entry.dtype = *parsed;
  TY_ASSIGN_OR_RETURN(entry.shape, ParseShape(file, name, value.value("shape", json())));
  json offsets = value.value("data_offsets", json());
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) {
    return Bad(file, fmt::format("tensor '{}' has no 'data_offsets' of two whole numbers", name));
  }
  entry.begin = offsets[0].get<uint64_t>();
  entry.end = offsets[1].get<uint64_t>();
  if (entry.begin > entry.end || entry.end > data_bytes) {
    return Bad(file, fmt::format("tensor '{}' is said to be at bytes [{}, {}) of {} bytes of data; the file is cut off or damaged", name,
                                 entry.begin, entry.end, data_bytes));
  }
  uint64_t expected = static_cast<uint64_t>(entry.shape.elements()) * SizeOf(entry.dtype);
  if (entry.end - entry.begin != expected) {
    return Bad(file, fmt::format("tensor '{}' of shape {} and type {} needs {} bytes, its offsets give {}", name, entry.shape.ToString(),
                                 DTypeName(entry.dtype), expected, entry.end - entry.begin));
  }
  return entry;
}

// Every byte of the data belongs to exactly one tensor.
absl::Status CheckCoverage(std::string_view file, std::vector<Entry>& entries, uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin < at) return Bad(file, fmt::format("tensor '{}' overlaps the one before it at byte {}", entry.name, entry.begin));
    if (entry.begin > at)
      return Bad(file, fmt::format("bytes [{}, {}) before tensor '{}' belong to no tensor", at, entry.begin, entry.name));
    at = entry.end;
  }
  if (at != data_bytes) return Bad(file, fmt::format("{} bytes after the last tensor belong to none", data_bytes - at));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Safetensors> Safetensors::Read(const std::string& path) {
  TY_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, kMaxFileBytes));
  return Parse(std::move(bytes), path);
}

absl::StatusOr<Safetensors> Safetensors::Parse(std::string bytes, std::string name) {
  if (bytes.size() < kLengthBytes) return Bad(name, fmt::format("it has {} bytes, too few for the header's length", bytes.size()));
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  if (header_bytes > kMaxHeaderBytes)
    return Bad(name, fmt::format("its header is said to have {} bytes, at most {} are read", header_bytes, kMaxHeaderBytes));
  if (header_bytes > bytes.size() - kLengthBytes) {
    return Bad(name, fmt::format("its header is said to have {} bytes, the file has {} after the length; it is cut off", header_bytes,
                                 bytes.size() - kLengthBytes));
  }
  TY_ASSIGN_OR_RETURN(json header, ParseHeader(name, std::string_view(bytes).substr(kLengthBytes, header_bytes)));
  const uint64_t data_begin = kLengthBytes + header_bytes;
  const uint64_t data_bytes = bytes.size() - data_begin;

  Safetensors file;
  std::vector<Entry> entries;
  for (const auto& [key, value] : header.items()) {
    if (key == kMetadata) {
      if (!value.is_object()) return Bad(name, "'__metadata__' is not a JSON object");
      for (const auto& [field, text] : value.items()) {
        if (!text.is_string()) return Bad(name, fmt::format("'__metadata__' field '{}' is not a string", field));
        file.metadata_[field] = text.get<std::string>();
      }
      continue;
    }
    TY_ASSIGN_OR_RETURN(Entry entry, ParseEntry(name, key, value, data_bytes));
    entries.push_back(std::move(entry));
  }
  TY_RETURN_IF_ERROR(CheckCoverage(name, entries, data_bytes));

  file.name_ = std::move(name);
  file.bytes_ = std::make_unique<const std::string>(std::move(bytes));
  for (Entry& entry : entries) {
    const char* data = file.bytes_->data() + data_begin + entry.begin;
    if (reinterpret_cast<uintptr_t>(data) % SizeOf(entry.dtype) != 0) {
      Buffer& copy = file.realigned_.emplace_back(entry.end - entry.begin);
      if (copy.size() > 0) std::memcpy(copy.data(), data, copy.size());
      data = copy.as<char>();
    }
    file.tensors_.push_back({std::move(entry.name), {entry.dtype, entry.shape, const_cast<char*>(data)}});
  }
  std::sort(file.tensors_.begin(), file.tensors_.end(), [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  return file;
}

const Tensor* Safetensors::Find(std::string_view name) const {
  auto found =
      std::lower_bound(tensors_.begin(), tensors_.end(), name, [](const NamedTensor& a, std::string_view b) { return a.name < b; });
  return found != tensors_.end() && found->name == name ? &found->tensor : nullptr;
}

absl::StatusOr<Tensor> Safetensors::Get(std::string_view name) const {
  if (const Tensor* tensor = Find(name)) return *tensor;
  std::string held;
  constexpr size_t kShown = 8;
  for (size_t i = 0; i < std::min(kShown, tensors_.size()); ++i) held += fmt::format("{}{}", i == 0 ? "" : ", ", tensors_[i].name);
  if (tensors_.size() > kShown) held += fmt::format(" and {} more", tensors_.size() - kShown);
  return absl::NotFoundError(fmt::format("{} has no tensor '{}'; it holds {}", name_, name, held.empty() ? "none" : held));
}

namespace {

// The length, the header, and the tensors in the order of their bytes.
struct Plan {
  std::string head;
  std::vector<const NamedTensor*> order;
  uint64_t data_bytes = 0;
};

absl::StatusOr<Plan> PlanFile(std::span<const NamedTensor> tensors, const std::map<std::string, std::string>& metadata) {
  Plan plan;
  json header = json::object();
  if (!metadata.empty()) header[std::string(kMetadata)] = metadata;
  // Widest element type first: then every tensor is aligned without gaps.
  for (size_t width : {8, 4, 1}) {
    for (const NamedTensor& named : tensors) {
      if (SizeOf(named.tensor.dtype) == width) plan.order.push_back(&named);
    }
  }
  for (const NamedTensor* named : plan.order) {
    const Tensor& tensor = named->tensor;
    if (named->name == kMetadata || header.contains(named->name)) {
      return absl::InvalidArgumentError(fmt::format("cannot write tensor '{}': the name is taken", named->name));
    }
    json shape = json::array();
    for (int64_t extent : tensor.shape.extents()) shape.push_back(extent);
    header[named->name] = {{"dtype", DTypeName(tensor.dtype)},
                           {"shape", std::move(shape)},
                           {"data_offsets", {plan.data_bytes, plan.data_bytes + tensor.bytes()}}};
    plan.data_bytes += tensor.bytes();
  }
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  plan.head.assign(kLengthBytes, '\0');
  const uint64_t length = text.size();
  std::memcpy(plan.head.data(), &length, kLengthBytes);
  plan.head += text;
  return plan;
}

std::string_view BytesOf(const Tensor& tensor) { return {static_cast<const char*>(tensor.data), tensor.bytes()}; }

}  // namespace

absl::StatusOr<std::string> SerializeSafetensors(std::span<const NamedTensor> tensors, const std::map<std::string, std::string>& metadata) {
  TY_ASSIGN_OR_RETURN(const Plan plan, PlanFile(tensors, metadata));
  std::string bytes;
  bytes.reserve(plan.head.size() + plan.data_bytes);
  bytes += plan.head;
  for (const NamedTensor* named : plan.order) bytes += BytesOf(named->tensor);
  return bytes;
}

absl::StatusOr<FileDigest> WriteSafetensors(const std::string& path, std::span<const NamedTensor> tensors,
                                            const std::map<std::string, std::string>& metadata, Disk& disk) {
  TY_ASSIGN_OR_RETURN(const Plan plan, PlanFile(tensors, metadata));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<FileSink> file, disk.Create(path));
  Sha256 sha256;
  const auto append = [&](std::string_view bytes) -> absl::Status {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kPiece))) {
      const std::string_view piece = bytes.substr(0, kPiece);
      sha256.Update(piece);
      TY_RETURN_IF_ERROR(file->Append(piece));
    }
    return absl::OkStatus();
  };
  TY_RETURN_IF_ERROR(append(plan.head));
  for (const NamedTensor* named : plan.order) TY_RETURN_IF_ERROR(append(BytesOf(named->tensor)));
  TY_RETURN_IF_ERROR(file->Sync());
  return FileDigest{.bytes = plan.head.size() + plan.data_bytes, .sha256 = sha256.HexDigest()};
}

}  // namespace trainyard::engine
