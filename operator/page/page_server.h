// PageServer: the operator's read-only page on a port of its own.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/base/clock.h"
#include "operator/controller/http_server.h"
#include "operator/page/job_feed.h"

namespace trainyard::control {

struct PageOptions {
  std::string host = "127.0.0.1";
  int port = 0;                      // 0: any free one
  std::vector<std::string> hosts{};  // names of the page beside localhost and IP addresses
  absl::Duration look_every = absl::Seconds(1);
};

// Two threads: one looks at the stores, one answers. Neither waits for the other, for the API
// server or for a client. The port is not that of /healthz: no use of the page can make the
// operator look unwell. The stores must outlive it.
class PageServer {
 public:
  PageServer(Clock& clock, const Lister<TrainingJob>& jobs, const Lister<Pod>& pods, PageOptions options);
  ~PageServer() { Stop(); }

  // The port; Unavailable naming host and port when it is taken.
  absl::StatusOr<int> Start();
  void Stop();

 private:
  Clock& clock_;
  const PageOptions options_;
  JobFeed feed_;
  HttpServer http_;
  std::jthread looker_;
};

}  // namespace trainyard::control
