// All-reduce of gradients of which few rows differ from zero, as those of embeddings: the rows that
// any rank has touched travel, and no others (docs/collectives.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/collectives/cost_model.h"
#include "trainer/collectives/operation.h"
#include "trainer/collectives/rank_group.h"
#include "trainer/collectives/rank_layout.h"
#include "trainer/optim/updater.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// Each rank marks its rows: 1 for a row that may differ from zero, else 0. The sum of the marks,
// which the caller adds as it adds gradients, is the same on all ranks. So all know the rows that
// any rank has marked, and add those of all ranks in the same order of additions. A row that none
// has marked is the sum of zeros. So the sums have the bits of those of whole gradients.
//
// Used by the step loop. Its memory grows to the most rows of a step.
class RowSums {
 public:
  // `keys`: of the gradients that may list their rows.
  RowSums(const std::vector<ParameterSpec>& specs, std::vector<int> keys, int rank, int devices, size_t bucket_bytes);

  // Marks cost a float a row. False: the tensor is so small, or its rows so short, that it travels
  // whole.
  static bool PaysFor(const ParameterSpec& spec);

  bool Has(int key) const { return tensors_.size() > static_cast<size_t>(key) && !tensors_[key].marks.empty(); }
  // Takes down this rank's marks, one a row.
  void Mark(int key, const GradientView& gradient);
  std::span<const float> marks(int key) const { return tensors_[key].marks; }
  // Where the sum of all ranks' marks belongs.
  std::span<float> marked(int key) { return tensors_[key].marked; }

  // The marks of `keys` are summed: adds their rows, by the group's next operation. `gradients`: by
  // key; this rank's are sums over `addends` devices, 0: it has none. Leaves means in `sums`, and
  // the list of their rows.
  absl::StatusOr<Waited> Add(RankGroup& group, const AlgorithmChoice& choice, const RankLayout& layout, int64_t step,
                             const std::vector<int>& keys, std::span<const GradientView> gradients, int addends, ParameterSet& sums);

 private:
  struct Tensor {
    std::string name;
    size_t row_elements = 0;
    std::vector<float> marks;
    std::vector<float> marked;
    std::vector<int32_t> rows;  // that any rank has marked, ascending
    size_t begin = 0;           // of its rows among those of all tensors of the step, in elements
  };

  // The rows that any rank has marked; returns their elements.
  size_t FindRows(const std::vector<int>& keys);
  void Pack(const std::vector<int>& keys, std::span<const GradientView> gradients);
  void Unpack(const std::vector<int>& keys, ParameterSet& sums);

  const int rank_;
  const size_t bucket_bytes_;
  std::vector<Tensor> tensors_;  // by key
  // Of the step under way: rows of all tensors, one after the other.
  std::vector<float> own_;
  std::vector<float> sums_;
  OperationPlan plan_;
  std::unique_ptr<Operation> operation_;
};

}  // namespace trainyard::engine
