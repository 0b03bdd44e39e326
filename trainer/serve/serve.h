// All of a server of predictions, from its start to its end.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "trainer/serve/batcher.h"
#include "trainer/serve/grpc_server.h"
#include "trainer/serve/model_service.h"
#include "trainer/serve/rest_server.h"
#include "trainer/serve/served_model.h"
#include "trainer/train/stop_request.h"

namespace trainyard::engine {

struct ServeOptions {
  TrainedModelOptions checkpoint;  // of a folder, the newest good one is served, and newer ones later
  BatcherOptions batcher;
  ModelServiceOptions service;
  RestServerOptions rest;
  GrpcServerOptions grpc;
  absl::Duration poll = absl::Seconds(2);    // between two looks into the folder
  absl::Duration drain = absl::Seconds(10);  // at the end, for the requests that have come
};

// Serves until `stop` is requested. A folder without a checkpoint is waited for. Errors: a backend
// that cannot be made; a port that is in use; one checkpoint, in place of a folder, that cannot be
// used.
absl::Status Serve(const ServeOptions& options, const ServedModel::BackendMaker& make_backend, StopRequest& stop);

}  // namespace trainyard::engine
