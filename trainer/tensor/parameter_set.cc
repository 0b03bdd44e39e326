#include "trainer/tensor/parameter_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "trainer/base/sha256.h"

namespace trainyard::engine {
namespace {

constexpr size_t kFloatsPerLine = kBufferAlignment / sizeof(float);

std::string Describe(const ParameterSpec& spec) { return absl::StrCat(spec.name, "\n", spec.shape.ToString(), "\nF32\n"); }

}  // namespace

ParameterSet::ParameterSet(std::vector<ParameterSpec> specs, LendableMemory* memory)
    : specs_(std::move(specs)), touched_rows_(specs_.size()) {
  size_t floats = 0;
  for (const ParameterSpec& spec : specs_) {
    offsets_.push_back(floats);
    floats += (static_cast<size_t>(spec.shape.elements()) + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
  }
  buffer_ = Buffer(floats * sizeof(float), memory);
}

int ParameterSet::Find(std::string_view name) const {
  for (int key = 0; key < size(); ++key) {
    if (specs_[key].name == name) return key;
  }
  return -1;
}

int64_t ParameterSet::elements() const {
  int64_t sum = 0;
  for (const ParameterSpec& spec : specs_) sum += spec.shape.elements();
  return sum;
}

std::string ParameterSet::Sha256Hex() const {
  Sha256 hash;
  for (int key = 0; key < size(); ++key) {
    hash.Update(Describe(specs_[key]));
    hash.Update(std::as_bytes(values(key)));
  }
  return hash.HexDigest();
}

uint64_t ParameterSet::Fingerprint() const { return FingerprintOf(specs_); }

void CopyValues(const ParameterSet& from, ParameterSet& to) {
  for (int key = 0; key < from.size(); ++key) std::ranges::copy(from.values(key), to.values(key).begin());
}

ParameterSet CopyOf(const ParameterSet& set) {
  ParameterSet copy({set.specs().begin(), set.specs().end()});
  CopyValues(set, copy);
  return copy;
}

uint64_t FingerprintOf(std::span<const ParameterSpec> specs) {
  Sha256 hash;
  for (const ParameterSpec& spec : specs) hash.Update(Describe(spec));
  uint64_t fingerprint = 0;
  TY_CHECK(absl::SimpleHexAtoi(hash.HexDigest().substr(0, 16), &fingerprint));
  return fingerprint;
}

int64_t BytesOf(std::span<const ParameterSpec> specs) {
  int64_t bytes = 0;
  for (const ParameterSpec& spec : specs) bytes += spec.shape.elements() * static_cast<int64_t>(sizeof(float));
  return bytes;
}

}  // namespace trainyard::engine
