#include "operator/controller/fan_out.h"

#include <algorithm>

namespace trainyard::control {

struct FanOut::Batch {
  const std::function<void(size_t)>* call;
  size_t count;
  size_t next = 0;  // guarded by FanOut::mutex_, as is running
  size_t running = 0;
  CondVar ended;  // all calls have returned
};

FanOut::FanOut(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Help(); });
}

FanOut::~FanOut() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wanted_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void FanOut::ForEach(size_t count, const std::function<void(size_t)>& call) {
  if (count == 0) return;
  const auto batch = std::make_shared<Batch>(&call, count);
  MutexLock lock(mutex_);
  if (count > 1) {
    batches_.push_back(batch);
    for (size_t i = std::min(idle_, count - 1); i > 0; --i) wanted_.NotifyOne();
  }
  while (TakeOne(*batch)) {
  }
  std::erase(batches_, batch);
  while (batch->running > 0) batch->ended.Wait(mutex_);  // helpers end: each runs one bounded call
}

bool FanOut::TakeOne(Batch& batch) {
  if (batch.next >= batch.count) return false;
  const size_t mine = batch.next++;
  ++batch.running;
  mutex_.Unlock();
  (*batch.call)(mine);
  mutex_.Lock();
  if (--batch.running == 0 && batch.next >= batch.count) batch.ended.NotifyOne();
  return true;
}

void FanOut::Help() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (batches_.empty()) {
      ++idle_;
      wanted_.Wait(mutex_);
      --idle_;
      continue;
    }
    // One call, then the next batch's turn: big jobs do not starve small ones.
    const std::shared_ptr<Batch> batch = batches_.front();
    batches_.pop_front();
    if (batch->next + 1 < batch->count) batches_.push_back(batch);
    TakeOne(*batch);
  }
}

}  // namespace trainyard::control
