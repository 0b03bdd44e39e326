#include "operator/plan/plan_serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "operator/api/text.h"
#include "operator/children/child_kinds.h"
#include "operator/children/labels.h"
#include "operator/children/serve_builder.h"
#include "operator/plan/conditions.h"

namespace trainyard::control {
namespace {

// Why nothing is served, or what is wrong: reason and message of the condition.
struct Hindrance {
  std::string reason;  // empty: none
  std::string message;
};

// In which what became ready has been asked for its version.
constexpr absl::Duration kAnswerTime = absl::Seconds(5);

bool IsAboutServing(const FieldError& error) { return error.path.starts_with("spec.serve"); }

class ServingPlanner {
 public:
  ServingPlanner(const Situation& situation, TrainingJobStatus& status)
      : situation_(situation), job_(situation.job), observed_(situation.observed.serving), status_(status), name_(ServeName(job_)) {}

  Plan Run() {
    const bool stays = status_.phase == JobPhase::kInvalid || std::any_of(job_.problems.begin(), job_.problems.end(), IsAboutServing) ||
                       std::any_of(job_.refused_edit.begin(), job_.refused_edit.end(), IsAboutServing);
    if (stays) return {};
    const Hindrance unwanted = WhyNot();
    if (!unwanted.reason.empty()) {
      Remove();
      status_.serving.reset();
      if (job_.spec.serve || status_.Find(kServing) != nullptr) Tell(unwanted);
      return std::move(plan_);
    }
    plan_.adopt = observed_.adopt;
    plan_.relabel = observed_.relabel;
    plan_.release = observed_.release;
    Make();
    Describe();
    return std::move(plan_);
  }

 private:
  // Empty where the Deployment and the Service are to be there.
  Hindrance WhyNot() const {
    if (!job_.spec.serve) return {"Removed", "spec.serve is not set any more"};
    const bool best = job_.spec.serve->when == ServeWhen::kBest;
    if (status_.phase == JobPhase::kSucceeded) return {};
    if (status_.phase == JobPhase::kFailed) {
      const bool has_best = (status_.progress && status_.progress->best_checkpoint_step) || (status_.serving && status_.serving->version);
      if (best && has_best) return {};
      return {"JobFailed", best ? "the job has failed before it had a best checkpoint" : "the job has failed: it has no final checkpoint"};
    }
    if (!best) return {"WaitsForSuccess", "the final checkpoint is served when the job has succeeded"};
    // What is there stays through suspension and resumption.
    if (status_.start_time || observed_.deployment != nullptr) return {};
    return Suspended() ? Hindrance{"Suspended", "the job is suspended"} : Hindrance{"WaitsForStart", "the job has not started"};
  }

  bool Suspended() const { return job_.spec.run_policy.suspend && !status_.Finished(); }

  void Remove() {
    if (observed_.deployment != nullptr && !observed_.deployment->meta.deletion_time) {
      const ObjectMeta& meta = observed_.deployment->meta;
      plan_.deletions.push_back({{ChildKind::kDeployment, meta.name, meta.uid, meta.resource_version, std::nullopt}});
    }
    if (observed_.service && !observed_.service->terminating) plan_.deletions.push_back({*observed_.service});
  }

  void Make() {
    if (!observed_.service) Create(ChildKind::kService);
    if (observed_.deployment == nullptr) {
      Create(ChildKind::kDeployment);
    } else if (!observed_.deployment->meta.deletion_time) {
      PutRight(*observed_.deployment);
    }
    if (!observed_.taken.empty()) plan_.RequeueAt(situation_.now + situation_.options.retry_taken_after);
    if (!observed_.leftovers.empty()) plan_.RequeueAt(situation_.now + situation_.options.retry_leftovers_after);
    if (plan_.serving == ServingActions{}) return;
    if (!observed_.refusal || observed_.refusal->wait <= absl::ZeroDuration()) return;
    plan_.serving = {};
    plan_.RequeueAt(situation_.now + observed_.refusal->wait);
  }

  void Create(ChildKind kind) {
    if (observed_.taken.contains({kind, name_}) || observed_.leftovers.contains(name_)) return;
    if (std::any_of(observed_.adopt.begin(), observed_.adopt.end(), [&](const ChildRef& child) { return child.kind == kind; })) return;
    plan_.serving.creations.push_back({kind, name_, "", "", std::nullopt});
  }

  void PutRight(const Deployment& deployment) {
    TrainingJob job = job_;
    job.status = status_;
    const std::optional<AppliedServing>& applied = observed_.applied;
    if (!applied || applied->uid != deployment.meta.uid || applied->hash != ServeHash(job)) {
      plan_.serving.update = true;
    } else if (deployment.meta.generation > applied->generation) {
      const absl::Duration left = situation_.options.restore_serving_after - applied->age;
      if (left > absl::ZeroDuration()) return plan_.RequeueAt(situation_.now + left);
      plan_.serving.update = plan_.serving.restores = true;
    }
  }

  // ---- what is told ----

  int Ready() const { return observed_.deployment == nullptr ? 0 : observed_.deployment->ready_replicas; }

  Hindrance FindHindrance() const {
    if (!observed_.taken.empty()) {
      const auto& [child, holder] = *observed_.taken.begin();
      return {"NameTaken", fmt::format("{} {} exists and is {}; delete or rename it, or remove spec.serve", TraitsOf(child.first).name,
                                       child.second, holder)};
    }
    const bool missing = observed_.deployment == nullptr || !observed_.service;
    if (missing && observed_.refusal) return {std::string(kCannotCreate), DescribeRefusal(job_, *observed_.refusal)};
    if (Suspended()) return {"Suspended", "the job is suspended: no pod serves"};
    if (job_.spec.serve->replicas == 0) return {"NoReplicas", "spec.serve.replicas is 0"};
    if (Ready() > 0 && IsKnown()) return {};
    if (Ready() > 0) return {"NotReady", fmt::format("a pod of Deployment {} is ready; it is asked for its version", name_)};
    if (const std::string problem = DescribeProblem(); !problem.empty()) return {"NotReady", problem};
    const std::string where = fmt::format("kubectl logs deployment/{} -n {} tells more", name_, job_.meta.name_space);
    const bool best = job_.spec.serve->when == ServeWhen::kBest && !status_.Finished() && !status_.IsTrue(kServing);
    if (best && !(status_.progress && status_.progress->best_checkpoint_step)) {
      return {"NotReady", "waits for the first best checkpoint; " + where};
    }
    return {"NotReady", fmt::format("no pod of Deployment {} is ready; {}", name_, where)};
  }

  // Why pods cannot be made. Empty: they can.
  std::string DescribeProblem() const {
    if (observed_.deployment == nullptr || observed_.deployment->problem.empty()) return "";
    return fmt::format("Deployment {}: {}", name_, observed_.deployment->problem);
  }

  // What of an edit does not roll out, or is lost, while others serve. Empty: nothing.
  std::string DescribeUnready() const {
    const std::string problem = DescribeProblem();
    const int unready = observed_.deployment->unready_replicas;
    if (!problem.empty() || unready == 0) return problem;
    return fmt::format("{} of Deployment {} {} not ready; kubectl get pods -n {} -l {}={} tells more", Counted(unready, "pod"), name_,
                       unready == 1 ? "is" : "are", job_.meta.name_space, kServeLabel, job_.meta.name);
  }

  // A pod is ready when it has a version. The first word about it is to name that version.
  bool IsKnown() const {
    return observed_.version || !observed_.problem.empty() || !situation_.options.ask_versions || status_.IsTrue(kServing);
  }

  void Describe() {
    std::optional<int64_t> version = observed_.version;
    if (!version && job_.status.serving) version = job_.status.serving->version;
    status_.serving = Serving{.ready_replicas = Ready(), .version = version, .url = ServeUrl(job_)};
    const Hindrance hindrance = FindHindrance();
    if (hindrance.reason == "NameTaken") status_.serving.reset();  // its address would be another's
    if (Ready() > 0 && !IsKnown()) plan_.RequeueAt(situation_.now + kAnswerTime);
    if (!hindrance.reason.empty()) return Tell(hindrance);
    std::string message = version ? fmt::format("version {} answers at {}", *version, status_.serving->url)
                                  : fmt::format("a model answers at {}", status_.serving->url);
    if (!observed_.version && !observed_.problem.empty()) message += "; its version is not known: " + observed_.problem;
    if (observed_.refusal) message += "; " + DescribeRefusal(job_, *observed_.refusal);
    const std::string unready = DescribeUnready();
    if (!unready.empty()) message += "; " + unready;
    if (SetCondition(status_, kServing, true, "VersionAnswers", message, situation_.Stamp())) plan_.AddEvent(false, "Serving", message);
  }

  // Names that are taken and refusals are mistakes to mend, so there is an event too.
  void Tell(const Hindrance& hindrance) {
    const Condition* before = job_.status.Find(kServing);
    const bool news = before == nullptr || before->reason != hindrance.reason;
    if (news && (hindrance.reason == "NameTaken" || hindrance.reason == kCannotCreate)) {
      plan_.AddEvent(true, hindrance.reason, "spec.serve: " + hindrance.message);
    }
    SetCondition(status_, kServing, false, hindrance.reason, hindrance.message, situation_.Stamp());
  }

  const Situation& situation_;
  const TrainingJob& job_;
  const ObservedServing& observed_;
  TrainingJobStatus& status_;
  const std::string name_;
  Plan plan_;
};

}  // namespace

Plan PlanServing(const Situation& situation, TrainingJobStatus& status) { return ServingPlanner(situation, status).Run(); }

}  // namespace trainyard::control
