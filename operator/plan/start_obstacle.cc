#include "operator/plan/start_obstacle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "operator/api/text.h"
#include "operator/plan/node_wait.h"

namespace trainyard::control {
namespace {

constexpr size_t kMaxObstacleWords = 600;  // of the scheduler or the kubelet

bool Has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// What was said last, without the full stop that ends it.
std::string Words(std::string_view text) {
  std::string words = Head(text, kMaxObstacleWords);
  while (!words.empty() && (words.back() == '.' || words.back() == ' ' || words.back() == '\n')) words.pop_back();
  std::replace(words.begin(), words.end(), '\n', ' ');
  return words;
}

class PodReader {
 public:
  PodReader(const ReplicaId& id, const Pod& pod, const ObstaclePatience& patience) : id_(id), pod_(pod), patience_(patience) {}

  std::optional<Obstacle> Read() const {
    if (pod_.meta.deletion_time) return std::nullopt;
    if (!pod_.unschedulable.empty()) return Unschedulable();
    if (pod_.node.empty()) return NoScheduler();
    for (const ContainerStatus& container : pod_.init_containers) {
      if (auto obstacle = OfContainer(container, "init container " + container.name)) return obstacle;
      if (auto obstacle = OfInitFailure(container)) return obstacle;
    }
    for (const ContainerStatus& container : pod_.containers) {
      const bool main = container.name == pod_.main_container;
      if (auto obstacle = OfContainer(container, main ? "it" : "container " + container.name)) return obstacle;
    }
    return StillCreating();
  }

 private:
  std::string Template() const { return fmt::format("spec.{}.template", Name(id_.role)); }

  Obstacle Refused(std::string_view reason, std::string message) const {
    return {std::string(reason), std::move(message), pod_.meta.creation_time + patience_.refused};
  }

  Obstacle Unschedulable() const {
    const std::string& said = pod_.unschedulable;
    const std::string device = LackingDevice(said);
    std::string step = fmt::format("request less (spec.{0}.resources, {1}), or add nodes", Name(id_.role), Template());
    if (Has(said, "persistentvolumeclaim") && Has(said, "not found")) {
      step = fmt::format("create that PersistentVolumeClaim in namespace {}, or create the job with another spec.storage.claimName",
                         pod_.meta.name_space);
    } else if (Has(said, "PersistentVolumeClaim")) {
      step = fmt::format("kubectl describe pvc -n {} says why the claim is not bound", pod_.meta.name_space);
    } else if (Has(said, "affinity") || Has(said, "selector") || Has(said, "taint")) {
      step = fmt::format("change nodeSelector, affinity or tolerations in {}, request less, or add nodes", Template());
    } else if (!device.empty() && WaitsForOtherPods(said)) {
      step = fmt::format("it starts when other pods free {}; or {}", device, step);
    } else if (!device.empty()) {
      step += fmt::format("; kubectl describe nodes shows how many {} each node has, none where no device plugin runs", device);
    }
    // The scheduler's word for cordoned nodes.
    if (Has(said, "were unschedulable")) step = "kubectl uncordon NODE lets a cordoned node take pods again; or " + step;
    return Refused("Unschedulable", fmt::format("no node takes it: {}; {}", PlainSchedulerWords(said), step));
  }

  std::optional<Obstacle> NoScheduler() const {
    if (pod_.scheduler_spoke) return std::nullopt;  // a scheduling gate, which another controller opens
    return Obstacle{"Unschedulable",
                    fmt::format("scheduler \"{}\" has not looked at it; install that scheduler, or name another in {}.spec.schedulerName",
                                pod_.scheduler.empty() ? "default-scheduler" : pod_.scheduler, Template()),
                    pod_.meta.creation_time + patience_.creating};
  }

  // What the kubelet says while it cannot make the container.
  std::optional<Obstacle> OfContainer(const ContainerStatus& container, const std::string& what) const {
    const std::string& reason = container.waiting_reason;
    const std::string said = Words(container.waiting_message);
    if (reason == "ImagePullBackOff" || reason == "ErrImagePull") {
      // The two come in turn and are one thing.
      return Refused("ImagePullBackOff", fmt::format("{} cannot pull its image: {}; correct the image in spec.image or {}, or give it "
                                                     "imagePullSecrets there",
                                                     what, said, Template()));
    }
    if (reason == "InvalidImageName" || reason == "ErrImageNeverPull" || reason == "ImageInspectError") {
      return Refused(reason,
                     fmt::format("{} has no image: {}; correct image and imagePullPolicy in spec.image or {}", what, said, Template()));
    }
    if (reason == "CreateContainerConfigError") {
      return Refused(reason, fmt::format("{} lacks an object that its configuration names: {}; create it in namespace {}, or correct {}",
                                         what, said, pod_.meta.name_space, Template()));
    }
    if (reason == "CreateContainerError" || reason == "RunContainerError") {
      return Refused(reason, fmt::format("{} cannot be run: {}; correct command, mounts and devices in {}", what, said, Template()));
    }
    return std::nullopt;
  }

  std::optional<Obstacle> OfInitFailure(const ContainerStatus& container) const {
    const BoxedOptional<Termination>& end = container.terminated ? container.terminated : container.last_terminated;
    if (container.running_since || !end || end->exit_code == 0) return std::nullopt;
    const std::string last = Words(Tail(end->message, kMaxObstacleWords));
    return Refused("InitContainerFailed",
                   fmt::format("init container {0} ends with exit code {1} ({2}){3}; kubectl logs {4} -n {5} -c {0} tells more",
                               container.name, end->exit_code, end->reason.empty() ? "Error" : end->reason, last.empty() ? "" : ": " + last,
                               pod_.meta.name, pod_.meta.name_space));
  }

  // A volume, ConfigMap or Secret that is not there, a slow network, a big image: only the pod's
  // events tell which.
  std::optional<Obstacle> StillCreating() const {
    absl::Time since = pod_.taken_at.value_or(absl::InfiniteFuture());
    for (const ContainerStatus& container : pod_.init_containers) {
      if (container.running_since) return std::nullopt;
      if (container.terminated) since = std::max(since, container.terminated->finished_at);
    }
    for (const ContainerStatus& container : pod_.containers) {
      if (container.running_since || container.terminated || container.last_terminated) return std::nullopt;
    }
    if (since == absl::InfiniteFuture()) return std::nullopt;
    return Obstacle{"ContainerCreating",
                    fmt::format("node {} still creates its containers: kubectl describe pod {} -n {} says whether it waits for a volume, a "
                                "ConfigMap, a Secret or a big image",
                                pod_.node, pod_.meta.name, pod_.meta.name_space),
                    since + patience_.creating};
  }

  const ReplicaId& id_;
  const Pod& pod_;
  const ObstaclePatience& patience_;
};

}  // namespace

std::optional<Obstacle> StartObstacle(const ReplicaId& id, const Pod& pod, const ObstaclePatience& patience) {
  return PodReader(id, pod, patience).Read();
}

}  // namespace trainyard::control
