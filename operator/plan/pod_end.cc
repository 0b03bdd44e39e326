#include "operator/plan/pod_end.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "operator/api/json_read.h"
#include "operator/api/main_container.h"
#include "operator/api/progress_json.h"
#include "operator/api/text.h"
#include "operator/plan/replica_state.h"

namespace trainyard::control {
namespace {

constexpr size_t kMaxTail = 1024;
constexpr size_t kMaxLine = 512;

bool Failed(const BoxedOptional<Termination>& end) { return end && end->exit_code != 0; }

std::string KindOf(const ContainerEnd& ended) { return ended.init ? "init container" : "container"; }

// The last line that says something, cut at its end.
std::string LastLine(std::string_view text) {
  const size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string_view::npos) return "";
  text = text.substr(0, end + 1);
  const size_t before = text.find_last_of('\n');
  return Head(before == std::string_view::npos ? text : text.substr(before + 1), kMaxLine);
}

// What a container has left to say. Of a chief that was asked to stop that is its progress
// (docs/contract.md).
std::string WordsOf(const Termination& end) {
  const std::optional<Progress> progress = ParseProgress(end.message);
  return progress ? fmt::format("stopped at step {}", progress->step) : end.message;
}

// The main container ended with 0 and is started again; null where it did not end so.
const Termination* SuccessThatIsRepeated(const Pod& pod) {
  const ContainerStatus* const main = pod.Main();
  if (main == nullptr || pod.phase == PodPhase::kFailed) return nullptr;
  const BoxedOptional<Termination>& end = main->terminated ? main->terminated : main->last_terminated;
  return end && end->exit_code == 0 ? &*end : nullptr;
}

// What the kubelet or a controller says of the pod, without the stop after it.
std::string WordsOf(const Pod& pod) {
  std::string_view text = pod.message;
  text = text.substr(0, text.find_last_not_of(" .\t\r\n") + 1);
  return text.empty() ? pod.reason : fmt::format("{}: {}", pod.reason, Tail(text, kMaxTail));
}

// A container of a role's template, and where it stands there:
// "spec.worker.template.spec.initContainers[0]".
struct Declared {
  std::string path;
  nlohmann::json container;
};

std::optional<Declared> FindInTemplate(const nlohmann::json& pod_template, const ReplicaId& id, const ContainerEnd& ended) {
  const char* const list = ended.init ? "initContainers" : "containers";
  const nlohmann::json& containers = json_read::Get(json_read::Get(pod_template, "spec"), list);
  if (!containers.is_array()) return std::nullopt;
  const size_t main = MainContainerIndex(pod_template);
  for (size_t i = 0; i < containers.size(); ++i) {
    if (ended.main ? i != main : json_read::String(containers[i], "name") != ended.container->name) continue;
    return Declared{fmt::format("spec.{}.template.spec.{}[{}]", Name(id.role), list, i), containers[i]};
  }
  return std::nullopt;
}

// Which limit the container ran into. The main container has the role's `resources` where its
// template names none.
std::string MemoryAdvice(const TrainingJob& job, const ReplicaId& id, const ContainerEnd& ended) {
  const ReplicaSpec* replica = job.spec.Find(id.role);
  const auto parsed = [](const std::string& text) { return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false); };
  const std::optional<Declared> declared = replica == nullptr ? std::nullopt : FindInTemplate(parsed(replica->pod_template), id, ended);
  if (!declared && !ended.main) {
    return fmt::format("raise its memory limit where it is added to the pod: spec.{}.template has no {} of that name", Name(id.role),
                       KindOf(ended));
  }
  const bool own = declared && (!ended.main || json_read::Find(declared->container, "resources") != nullptr);
  std::string of = own ? declared->path : fmt::format("spec.{}", Name(id.role));
  nlohmann::json resources;
  if (own) {
    resources = json_read::Get(declared->container, "resources");
  } else if (replica != nullptr) {
    resources = parsed(replica->resources);
  }
  const nlohmann::json& memory = json_read::Get(json_read::Get(resources, "limits"), "memory");
  if (memory.is_null()) return fmt::format("its node ran out of memory: set {}.resources.requests.memory to the need of a replica", of);
  return fmt::format("it needs more memory than {}.resources.limits.memory allows: found {}, raise it", of,
                     memory.is_string() ? memory.get<std::string>() : memory.dump());
}

// `command`: one that tells more; may be empty.
std::string DescribeContainerEnd(const TrainingJob& job, const ReplicaId& id, const ContainerEnd& ended, const std::string& command) {
  const Termination& end = *ended.end;
  std::string text = fmt::format("exit code {}", end.exit_code);
  if (!end.reason.empty()) text += fmt::format(" ({})", end.reason);
  if (!ended.main) text = fmt::format("{} {} ended with {}", KindOf(ended), ended.container->name, text);
  if (!command.empty()) text += fmt::format("; {} tells more", command);
  if (end.reason == "OOMKilled") return text + "; " + MemoryAdvice(job, id, ended);
  if (const std::string line = LastLine(WordsOf(end)); !line.empty()) text += ": " + line;
  return text;
}

}  // namespace

std::optional<ContainerEnd> LastFailure(const Pod& pod) {
  std::vector<ContainerEnd> containers;
  const ContainerStatus* main = pod.Main();
  if (main != nullptr) containers.push_back({.container = main, .main = true});
  for (const ContainerStatus& container : pod.containers) {
    if (&container != main) containers.push_back({.container = &container});
  }
  for (const ContainerStatus& container : pod.init_containers) containers.push_back({.container = &container, .init = true});
  std::optional<ContainerEnd> newest;
  for (ContainerEnd& ended : containers) {
    if (Failed(ended.container->terminated)) {
      ended.end = &*ended.container->terminated;
      return ended;
    }
    if (!Failed(ended.container->last_terminated)) continue;
    ended.end = &*ended.container->last_terminated;
    if (!newest || newest->end->finished_at < ended.end->finished_at) newest = ended;
  }
  return newest;
}

Failure DescribeFailure(const ReplicaId& id, const Pod& pod) {
  Failure failure;
  failure.replica = Name(id);
  failure.pod = pod.meta.name;
  failure.node = pod.node;
  const std::optional<ContainerEnd> ended = LastFailure(pod);
  if (const Termination* const success = ended ? nullptr : SuccessThatIsRepeated(pod)) {
    failure.exit_code = 0;
    failure.reason = success->reason;
    failure.message = Tail(success->message, kMaxTail);
    return failure;
  }
  if (!ended) {
    failure.reason = pod.reason.empty() ? "PodFailed" : pod.reason;
    failure.message = Tail(pod.message, kMaxTail);
    return failure;
  }
  const Termination& end = *ended->end;
  if (!ended->main) failure.container = ended->container->name;
  failure.exit_code = end.exit_code;
  if (end.signal > 0) {
    failure.signal = end.signal;
  } else if (end.exit_code > 128 && end.exit_code < 128 + 65) {
    failure.signal = end.exit_code - 128;
  }
  failure.reason = end.reason.empty() ? "Error" : end.reason;
  failure.message = Tail(WordsOf(end), kMaxTail);
  if (WentBeyondItsLimit(pod)) {
    failure.reason = pod.reason;
    failure.message = Tail(pod.message, kMaxTail);
  }
  return failure;
}

std::string DescribeEnd(const TrainingJob& job, const ReplicaId& id, const Pod& pod, bool with_command) {
  if (pod.meta.deletion_time && !pod.disruption_target) return "it was deleted from outside";
  if (WasDisrupted(pod)) {
    if (pod.reason.empty()) return pod.disruption.empty() ? "disruption" : pod.disruption;
    return WordsOf(pod);
  }
  if (WentBeyondItsLimit(pod)) {
    return fmt::format("{}; raise that limit in spec.{}, or let the replica write less", WordsOf(pod), Name(id.role));
  }
  const std::optional<ContainerEnd> ended = LastFailure(pod);
  if (!ended && SuccessThatIsRepeated(pod) != nullptr) {
    return fmt::format(
        "exit code 0, after which restartPolicy Always starts it again; set spec.{}.restartPolicy to OnFailure if it has done its work",
        Name(id.role));
  }
  const std::string device = pod.unhealthy_device.empty() ? "" : fmt::format("its {} is unhealthy; ", pod.unhealthy_device);
  if (!ended) return device + (pod.reason.empty() ? "its pod failed" : WordsOf(pod));
  return device + DescribeContainerEnd(job, id, *ended, with_command && !ended->main ? LookCommand(job, pod, /*pod_stays=*/true) : "");
}

std::string DescribeInitRetry(const TrainingJob& job, const TrainingJobStatus& status, const ReplicaId& id, const Pod& pod) {
  const ContainerStatus* const main = pod.Main();
  if (main != nullptr && (main->running_since || main->terminated || main->last_terminated)) return "";
  for (const ContainerStatus& container : pod.init_containers) {
    const BoxedOptional<Termination>& end = container.terminated ? container.terminated : container.last_terminated;
    if (container.ready || !end || end->exit_code == 0) continue;
    const bool told_by_status = status.failure && status.failure->pod == pod.meta.name && status.failure->container == container.name;
    const bool pod_stays = pod.phase != PodPhase::kFailed || !told_by_status;
    return DescribeContainerEnd(job, id, {.container = &container, .end = &*end, .init = true}, LookCommand(job, pod, pod_stays));
  }
  return "";
}

std::string LookCommand(const TrainingJob& job, const Pod& pod, bool pod_stays) {
  if (!pod_stays) return fmt::format("kubectl get tj {} -n {} -o jsonpath={{.status.failure}}", job.meta.name, job.meta.name_space);
  const std::optional<ContainerEnd> ended = LastFailure(pod);
  if (!ended || WentBeyondItsLimit(pod)) return fmt::format("kubectl describe pod {} -n {}", pod.meta.name, pod.meta.name_space);
  return fmt::format("kubectl logs {} -n {}{}", pod.meta.name, pod.meta.name_space, ended->main ? "" : " -c " + ended->container->name);
}

}  // namespace trainyard::control
