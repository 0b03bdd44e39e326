// Streams that were opened and have not identified themselves: each has until a deadline.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// Not thread-safe. Time is what its caller says it is.
class AwaitedHellos {
 public:
  explicit AwaitedHellos(absl::Duration deadline) : deadline_(deadline) {}

  void Opened(std::shared_ptr<Stream> stream, absl::Time now) {
    const Stream* const key = stream.get();
    streams_[key] = {std::move(stream), now + deadline_};
  }
  // It said hello, or it is gone. True: it was awaited.
  bool Forget(const Stream* stream) { return streams_.erase(stream) > 0; }
  // Those whose deadline has come, each once.
  std::vector<std::shared_ptr<Stream>> TakeLate(absl::Time now) {
    std::vector<std::shared_ptr<Stream>> late;
    std::erase_if(streams_, [&](auto& entry) {
      if (entry.second.due > now) return false;
      late.push_back(std::move(entry.second.stream));
      return true;
    });
    return late;
  }

 private:
  struct Awaited {
    std::shared_ptr<Stream> stream;
    absl::Time due;
  };
  const absl::Duration deadline_;
  std::map<const Stream*, Awaited> streams_;
};

}  // namespace trainyard::engine
