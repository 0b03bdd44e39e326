// The served model as all protocols see it: found by name and version, asked for predictions.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/serve/infer_request.h"
#include "trainer/serve/sequences.h"
#include "trainer/serve/serve_metrics.h"
#include "trainer/serve/version_watch.h"

namespace trainyard::engine {

struct ModelServiceOptions {
  std::string name = "model";
  absl::Duration timeout = absl::Seconds(10);  // of a request; a client's own may be shorter
  SequenceOptions sequences;
};

// Thread-safe. The watch and the metrics must outlive it.
class ModelService {
 public:
  // False: nobody waits for the answer any more, and a sequence stays as it was.
  using Done = std::function<bool(absl::StatusOr<InferAnswer> answer)>;

  ModelService(ModelServiceOptions options, const VersionWatch& watch, ServeMetrics& metrics)
      : options_(std::move(options)), watch_(watch), metrics_(metrics), sequences_(options_.sequences) {}

  const std::string& name() const { return options_.name; }
  ServeMetrics& metrics() { return metrics_; }
  // A version is loaded, and the server is not about to end.
  bool ready() const { return !draining_ && watch_.current() != nullptr; }
  // From now on ready() is false. Requests are answered as before.
  void Drain() { draining_ = true; }
  std::string MetricsText() const;

  // The model that answers now. `version` is "" for any. NotFound: it has another name or version;
  // Unavailable: none is loaded yet.
  absl::StatusOr<std::shared_ptr<ServedModel>> Find(std::string_view name, std::string_view version) const;

  // `done` is called once, by this thread or the model's, and must not wait. InvalidArgument names
  // the field of the request; other errors are those of Batcher::Submit and Sequences::Go. `model`
  // must stay until then, and may not go in `done`: its destructor waits for `done`.
  void Infer(ServedModel& model, const InferRequest& request, const Done& done);
  // The same, and waits for the answer. DeadlineExceeded: it did not come in time.
  absl::StatusOr<InferAnswer> InferAndWait(ServedModel& model, const InferRequest& request);

 private:
  absl::Duration TimeoutOf(const InferRequest& request) const;
  absl::Status Submit(ServedModel& model, const InferRequest& request, const Done& done);

  const ModelServiceOptions options_;
  const VersionWatch& watch_;
  ServeMetrics& metrics_;
  Sequences sequences_;
  std::atomic<bool> draining_ = false;
};

}  // namespace trainyard::engine
