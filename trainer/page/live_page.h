// The page of a run while it trains, for browsers of this machine.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/report/progress.h"

namespace trainyard::engine {

// Serves GET / (the page) and GET /run.json (its data, read anew) on 127.0.0.1, from its own
// threads, until it is destroyed. It answers requests for that address alone, so that no page of
// another origin reaches it by a name of its own (DNS rebinding). Thread-safe.
class LivePage {
 public:
  // At any free port. Unavailable: there is none.
  static absl::StatusOr<std::unique_ptr<LivePage>> Start(std::string dir, std::string job);
  ~LivePage();
  LivePage(const LivePage&) = delete;
  LivePage& operator=(const LivePage&) = delete;

  // "http://127.0.0.1:40123/"
  std::string address() const;
  void Update(const Progress& progress);
  // The run's report is written: waits until an open page has it, for at most `patience`, and not
  // at all where no page has asked for the last seconds.
  void AwaitLastLook(absl::Duration patience);

 private:
  struct State;
  explicit LivePage(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace trainyard::engine
