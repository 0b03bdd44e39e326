// What a server of predictions counts, as Prometheus text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "trainer/serve/batcher.h"

namespace trainyard::engine {

struct ServeGauges {
  int64_t version = -1;   // -1: none is loaded
  int64_t loaded = 0;     // versions since the start
  int64_t refused = 0;    // checkpoints that could not be used
  int64_t queued = 0;     // examples that wait
  int64_t sequences = 0;  // that live
  bool ready = false;
};

// Thread-safe.
class ServeMetrics {
 public:
  ServeMetrics();
  ~ServeMetrics();
  ServeMetrics(const ServeMetrics&) = delete;
  ServeMetrics& operator=(const ServeMetrics&) = delete;

  // A request for predictions over `protocol` ("v2", "tensorflow", "grpc") that was answered with
  // an HTTP status or its equal.
  void AddRequest(std::string_view protocol, int status, absl::Duration time);
  void AddBatch(const Batcher::BatchSeen& batch);
  std::string Text(const ServeGauges& gauges) const;

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace trainyard::engine
