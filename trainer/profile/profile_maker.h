// Profiles for tests, as two workers and a server would have written them, with clocks that may be
// off.
#pragma once

#include <vector>

#include "trainer/profile/replica_profile.h"

namespace trainyard::engine {

// Two sync steps (10 and 11) of 1 ms at one true time. Each step runs the nodes "conv1" (400 us, 8
// MFLOP) and "loss" (100 us), and pushes the tensor "conv1/kernel". The push takes `forth`
// nanoseconds to the server and `back` from there. The clocks of worker-0, worker-1 and ps-0 are
// ahead by `skews`.
inline std::vector<ReplicaProfile> MakeProfiles(const std::vector<int64_t>& skews = {0, 0, 0}, int64_t forth = 20'000,
                                                int64_t back = 20'000) {
  constexpr int64_t kMicro = 1000;
  constexpr int64_t kBegin = 1'700'000'000'000'000'000;
  std::vector<ReplicaProfile> profiles(3);
  const std::vector<OperatorInfo> operators = {
      {"image", "input", 0, 0}, {"conv1", "conv2d", 8'000'000, 4'000}, {"loss", "softmax", 0, 500}};
  for (int i = 0; i < 3; ++i) {
    const bool server = i == 2;
    profiles[i] = {.role = server ? "ps" : "worker", .index = server ? 0 : i, .rank = server ? -1 : i, .steps = {.begin = 10, .end = 12}};
    profiles[i].tensors = {"conv1/kernel"};
    if (!server) profiles[i].operators = operators;
  }
  const auto add = [&](int replica, SpanKind kind, int id, int64_t step, int64_t start, int64_t end, int worker = -1) {
    profiles[replica].spans.push_back(
        {.kind = kind, .id = id, .worker = worker, .step = step, .start = start + skews[replica], .end = end + skews[replica]});
  };
  for (int64_t step = 10; step < 12; ++step) {
    const int64_t at = kBegin + (step - 10) * 1000 * kMicro;
    // The slower worker completes the round.
    const int64_t summed = at + 650 * kMicro + forth;
    for (int worker = 0; worker < 2; ++worker) {
      const int64_t late = worker * 50 * kMicro;
      add(worker, SpanKind::kNode, 1, step, at + 50 * kMicro + late, at + 450 * kMicro + late);
      add(worker, SpanKind::kNode, 2, step, at + 450 * kMicro + late, at + 550 * kMicro + late);
      const int64_t push = at + 600 * kMicro + late;
      add(worker, SpanKind::kPush, 0, step, push, push + 5 * kMicro);
      const bool last = worker == 1;
      add(2, last ? SpanKind::kSum : SpanKind::kReceive, 0, step, push + forth, push + forth + (last ? 30 : 1) * kMicro, worker);
      const int64_t arrived = summed + 30 * kMicro + back;
      add(worker, SpanKind::kArrived, 0, step, arrived, arrived);
      add(worker, SpanKind::kPull, 0, step, arrived + 2 * kMicro, arrived + 4 * kMicro);
      add(worker, SpanKind::kStep, -1, step, at, at + 1000 * kMicro);
      add(worker, SpanKind::kInput, -1, step, at, at + 50 * kMicro);
      add(worker, SpanKind::kCompute, -1, step, at + 50 * kMicro, at + 660 * kMicro);
      add(worker, SpanKind::kUpdate, -1, step, at + 660 * kMicro, at + 1000 * kMicro);
    }
  }
  return profiles;
}

}  // namespace trainyard::engine
