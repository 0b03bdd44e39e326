#include "trainer/serve/serve.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/checkpoint/find_checkpoint.h"
#include "trainer/serve/address_text.h"
#include "trainer/serve/http_api.h"
#include "trainer/serve/serve_metrics.h"
#include "trainer/serve/version_watch.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kLook = absl::Seconds(3600);  // StopRequest::Await takes a bound

absl::Status FirstLook(VersionWatch& watch, const std::string& path) {
  if (std::error_code ignored; std::filesystem::is_regular_file(path, ignored)) {
    return absl::InvalidArgumentError(
        fmt::format("found the file {}, expected a run's output folder, its folder of checkpoints, or one of them", path));
  }
  const absl::Status first = watch.Poll();
  if (first.ok()) return first;
  if (FindCheckpoints(path).one) return first;
  if (absl::IsNotFound(first)) {
    const std::string run = LastRunIn(path);
    LogInfo("{}: waiting for it{}", std::string(first.message()),
            run.empty() ? "" : fmt::format("; it is a folder of runs, such as {}", run));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Serve(const ServeOptions& options, const ServedModel::BackendMaker& make_backend, StopRequest& stop) {
  stop.SetGrace(options.drain);
  // Of the first version. No checkpoint mends a backend that cannot be made.
  TY_ASSIGN_OR_RETURN(std::unique_ptr<Backend> first_backend, make_backend());
  const auto next_backend = [&]() -> absl::StatusOr<std::unique_ptr<Backend>> {
    if (first_backend) return std::move(first_backend);
    return make_backend();
  };
  ServeMetrics metrics;
  VersionWatch watch(options.checkpoint.path, options.checkpoint.best, [&](const std::string& checkpoint) {
    TrainedModelOptions of = options.checkpoint;
    of.path = checkpoint;
    of.best = of.best && of.path == options.checkpoint.path;  // wrong for one checkpoint; else it was found already
    return ServedModel::Load(of, options.batcher, next_backend, [&metrics](const Batcher::BatchSeen& batch) { metrics.AddBatch(batch); });
  });
  ModelService service(options.service, watch, metrics);
  const HttpApi api(service);
  // Both ports answer before the first version is loaded: a probe sees that the process lives.
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<RestServer> rest, RestServer::Start(options.rest, api));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<GrpcServer> grpc, GrpcServer::Start(options.grpc, service));
  LogInfo("REST on http://{}, gRPC on {}", AddressText(options.rest.host, rest->port()), AddressText(options.grpc.host, grpc->port()));
  TY_RETURN_IF_ERROR(FirstLook(watch, options.checkpoint.path));
  if (!FindCheckpoints(options.checkpoint.path).one) watch.Start(options.poll);
  while (!stop.Await(kLook)) {
  }
  service.Drain();
  return absl::OkStatus();
}

}  // namespace trainyard::engine
