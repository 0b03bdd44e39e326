#include "trainer/train/row_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/backend/row_gradient.h"
#include "trainer/collectives/bucket_cut.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kLeastTableElements = 64 << 10;
constexpr int64_t kLeastRowElements = 16;

}  // namespace

RowSums::RowSums(const std::vector<ParameterSpec>& specs, std::vector<int> keys, int rank, int devices, size_t bucket_bytes)
    : rank_(rank),
      bucket_bytes_(bucket_bytes),
      tensors_(specs.size()),
      plan_{.name = "all-reduce of rows", .buckets = {}, .devices = devices} {
  for (const int key : keys) {
    const auto rows = static_cast<size_t>(specs[key].shape[0]);
    tensors_[key] = {.name = specs[key].name,
                     .row_elements = static_cast<size_t>(specs[key].row_elements()),
                     .marks = std::vector<float>(rows),
                     .marked = std::vector<float>(rows)};
  }
}

bool RowSums::PaysFor(const ParameterSpec& spec) {
  return spec.trainable && spec.row_elements() >= kLeastRowElements && spec.shape.elements() >= kLeastTableElements;
}

void RowSums::Mark(int key, const GradientView& gradient) {
  std::vector<float>& marks = tensors_[key].marks;
  std::ranges::fill(marks, gradient.rows ? 0.0F : 1.0F);
  if (gradient.rows) {
    for (const int32_t row : *gradient.rows) marks[row] = 1;
  }
}

size_t RowSums::FindRows(const std::vector<int>& keys) {
  size_t elements = 0;
  for (const int key : keys) {
    Tensor& tensor = tensors_[key];
    tensor.rows.clear();
    for (size_t row = 0; row < tensor.marked.size(); ++row) {
      if (tensor.marked[row] != 0) tensor.rows.push_back(static_cast<int32_t>(row));
    }
    tensor.begin = elements;
    elements += tensor.rows.size() * tensor.row_elements;
  }
  return elements;
}

void RowSums::Pack(const std::vector<int>& keys, std::span<const GradientView> gradients) {
  for (const int key : keys) {
    const Tensor& tensor = tensors_[key];
    auto out = own_.begin() + static_cast<ptrdiff_t>(tensor.begin);
    for (const int32_t row : tensor.rows) {
      out = std::ranges::copy(gradients[key].values.subspan(static_cast<size_t>(row) * tensor.row_elements, tensor.row_elements), out).out;
    }
  }
}

void RowSums::Unpack(const std::vector<int>& keys, ParameterSet& sums) {
  for (const int key : keys) {
    const Tensor& tensor = tensors_[key];
    TouchedRows& touched = sums.touched_rows(key);
    touched.Reserve(tensor.marked.size());
    const std::span<float> values = sums.values(key);
    BeginRowGradient(std::span<const int32_t>(tensor.rows), values, tensor.row_elements, &touched);
    std::span<const float> from = std::span(std::as_const(sums_)).subspan(tensor.begin);
    for (const int32_t row : tensor.rows) {
      std::ranges::copy(from.first(tensor.row_elements), values.subspan(static_cast<size_t>(row) * tensor.row_elements).begin());
      from = from.subspan(tensor.row_elements);
    }
  }
}

absl::StatusOr<Waited> RowSums::Add(RankGroup& group, const AlgorithmChoice& choice, const RankLayout& layout, int64_t step,
                                    const std::vector<int>& keys, std::span<const GradientView> gradients, int addends,
                                    ParameterSet& sums) {
  const size_t elements = FindRows(keys);
  if (own_.size() < elements) own_.resize(elements);
  if (sums_.size() < elements) sums_.resize(elements);
  if (addends > 0) Pack(keys, gradients);
  std::vector<size_t> sizes;
  for (const int key : keys) sizes.push_back(tensors_[key].rows.size() * tensors_[key].row_elements);
  const std::vector<BucketCut> cuts = CutIntoBuckets(sizes, bucket_bytes_);
  plan_.buckets.clear();
  for (const BucketCut& cut : cuts) {
    const size_t size = ElementsOf(cut);
    plan_.buckets.push_back({.name = fmt::format("rows of '{}'", tensors_[keys[cut.front().tensor]].name),
                             .elements = size,
                             .schedule = AllReduce(choice.Of(size * sizeof(float)), rank_, layout, size)});
  }
  operation_ = std::make_unique<Operation>(plan_, rank_, group.ranks(), group.borrowed());
  group.Begin(*operation_, {.step = step, .kind = OperationId::Kind::kRows});
  size_t begin = 0;  // the tensors' rows lie as their buckets do, one after the other
  for (size_t bucket = 0; bucket < cuts.size(); ++bucket) {
    const size_t size = plan_.buckets[bucket].elements;
    BucketValues values{.addends = std::max(1, addends)};
    if (addends > 0) values.own.push_back(std::span<const float>(own_).subspan(begin, size));
    values.targets.push_back({.values = std::span(sums_).subspan(begin, size), .divisor = Divisor::kAll});
    group.Contribute(bucket, std::move(values));
    begin += size;
  }
  absl::StatusOr<Waited> waited = group.Wait();
  if (waited.ok() && !waited->ended) Unpack(keys, sums);
  return waited;
}

}  // namespace trainyard::engine
