#include "trainer/transport/stream_threads.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

namespace trainyard::engine {

std::list<StreamThreads::Worker> StreamThreads::TakeEnded() {
  std::list<Worker> ended;
  std::list<Worker>& workers = state_->workers;
  for (auto worker = workers.begin(); worker != workers.end();) {
    const auto next = std::next(worker);
    if (worker->ended) ended.splice(ended.end(), workers, worker);
    worker = next;
  }
  return ended;
}

absl::Status StreamThreads::Start(std::function<void()> work) {
  std::list<Worker> ended;
  absl::Status status;
  {
    MutexLock lock(&state_->mutex);
    ended = TakeEnded();
    Worker& worker = state_->workers.emplace_back();
    try {
      worker.thread = std::thread([state = state_, &worker, work = std::move(work)]() mutable {
        std::exchange(work, nullptr)();
        MutexLock lock(&state->mutex);
        worker.ended = true;
      });
    } catch (const std::system_error& error) {
      state_->workers.pop_back();
      status = absl::ResourceExhaustedError(fmt::format("cannot start a thread for a stream: {}", error.what()));
    }
  }
  for (Worker& worker : ended) worker.thread.join();
  return status;
}

bool StreamThreads::Await(absl::Time deadline) {
  std::list<Worker> ended;
  bool all = false;
  {
    const auto all_ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex) {
      for (const Worker& worker : state_->workers) {
        if (!worker.ended) return false;
      }
      return true;
    };
    MutexLock lock(&state_->mutex);
    all = state_->mutex.AwaitWithDeadline(absl::Condition(&all_ended), deadline);
    ended = TakeEnded();
    for (Worker& worker : state_->workers) worker.thread.detach();
  }
  for (Worker& worker : ended) worker.thread.join();
  return all;
}

}  // namespace trainyard::engine
