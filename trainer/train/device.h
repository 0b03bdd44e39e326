// One device of a worker: a group of threads that trains a share of the batch, beside the worker's
// other devices. The worker's parameters are in one copy, which all of them read.
#pragma once

#include <utility>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/data/sampler.h"
#include "trainer/tensor/parameter_set.h"
#include "trainer/train/model_runner.h"

namespace trainyard::engine {

// In a step it is its own thread's. `backend` must outlive it. Gradients lie in `lendable` where
// that is not null and has room.
struct Device {
  // `executors`: of the model's training. A DeviceTraining keeps the gradients: `gradients` is
  // empty then.
  Device(int its_rank, const ModelSpec& spec, Backend& backend, const std::vector<ParameterSpec>& specs, Sampler its_sampler,
         LendableMemory* lendable = nullptr, const ExecutorOptions& executors = {})
      : rank(its_rank),
        threads(backend.threads()),
        model(spec, backend, executors),
        gradients(executors.training == nullptr ? specs : std::vector<ParameterSpec>(), lendable),
        sampler(std::move(its_sampler)) {}

  const int rank;             // among the devices of all workers: worker * devices + index. Examples, dropout and carried state follow it
  ThreadPool* const threads;  // of the backend; may be null
  ModelRunner model;
  ParameterSet gradients;
  Sampler sampler;
};

}  // namespace trainyard::engine
