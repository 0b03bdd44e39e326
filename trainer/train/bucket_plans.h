// The buckets of an all-reduce job: of a step's gradients, and of a whole state. Pure, the same on
// every rank.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trainer/collectives/bucket_cut.h"
#include "trainer/collectives/cost_model.h"
#include "trainer/collectives/operation.h"
#include "trainer/collectives/rank_layout.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

class BucketPlans {
 public:
  // `keys`: that a step leaves a gradient or a next value for, in the order in which backward
  // finishes them. Of those of `row_keys` marks of rows take the gradient's place (row_sums.h). A
  // state has the parameters and `slots` sets more.
  BucketPlans(std::vector<ParameterSpec> specs, std::vector<int> keys, const std::vector<int>& row_keys, size_t slots, size_t bucket_bytes);

  // Of a step; tensor: an index into keys.
  const std::vector<BucketCut>& step_cut() const { return step_cut_; }
  // "'dense1/kernel' to 'conv2/bias'", of each.
  std::vector<std::string> step_names() const;
  // The buckets that a key has a part of.
  const std::vector<size_t>& BucketsOf(int key) const { return buckets_of_[key]; }
  // Of a state; tensor: parameters by key, then each slot's.
  const std::vector<BucketCut>& state_cut() const { return state_cut_; }

  // The all-reduce of a step; `devices`: of each rank.
  OperationPlan Step(const AlgorithmChoice& choice, int rank, const RankLayout& layout, int devices) const;
  // The broadcast of the state that rank `root` has.
  OperationPlan State(int rank, int ranks, int root) const;

 private:
  std::vector<ParameterSpec> specs_;
  std::vector<int> keys_;
  std::vector<BucketCut> step_cut_;
  std::vector<BucketCut> state_cut_;
  std::vector<std::vector<size_t>> buckets_of_;  // by key
};

}  // namespace trainyard::engine
