// A data set that is wholly in memory.
#pragma once

#include "trainer/data/dataset.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine {

class MemoryDataset : public Dataset {
 public:
  // x and y hold info.examples examples and labels in order, in info's element types and shapes.
  MemoryDataset(DatasetInfo info, Buffer x, Buffer y);

  const DatasetInfo& info() const override { return info_; }
  absl::Status Read(std::span<const int64_t> indices, Batch& batch) const override;

 private:
  const DatasetInfo info_;
  const Buffer x_;
  const Buffer y_;
};

}  // namespace trainyard::engine
