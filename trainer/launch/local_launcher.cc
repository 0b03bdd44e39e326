#include "trainer/launch/local_launcher.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/time/clock.h"
#include "trainer/base/cpu_quota.h"
#include "trainer/base/status_macros.h"
#include "trainer/launch/job_folder.h"
#include "trainer/launch/ports.h"
#include "trainer/launch/progress_client.h"
#include "trainer/launch/progress_text.h"
#include "trainer/launch/report_text.h"
#include "trainer/profile/merge_profiles.h"
#include "trainer/train/report.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kBarPeriod = absl::Milliseconds(200);
constexpr absl::Duration kLinePeriod = absl::Seconds(2);
constexpr absl::Duration kFetchTimeout = absl::Milliseconds(200);
constexpr size_t kLogTailBytes = 2000;
constexpr size_t kOperatorsShown = 5;

// Draws progress on standard error: one line redrawn, lines now and then, or nothing.
class ProgressView {
 public:
  explicit ProgressView(ProgressMode mode)
      : mode_(mode != ProgressMode::kAuto  ? mode
              : isatty(STDERR_FILENO) != 0 ? ProgressMode::kBar
                                           : ProgressMode::kPlain) {}

  bool wanted() const { return mode_ != ProgressMode::kNone; }
  absl::Duration period() const { return mode_ == ProgressMode::kBar ? kBarPeriod : kLinePeriod; }

  void Show(const Progress& progress) {
    if (mode_ == ProgressMode::kBar) {
      std::fprintf(stderr, "\r%s\033[K", ProgressBar(progress, Columns()).c_str());
      open_line_ = true;
    } else if (progress.step != last_step_) {
      std::fprintf(stderr, "%s\n", ProgressLine(progress).c_str());
    }
    last_step_ = progress.step;
    std::fflush(stderr);
  }
  // A message of its own, above the bar.
  void Say(const std::string& text) {
    std::fprintf(stderr, "%s%s\n", open_line_ ? "\r\033[K" : "", text.c_str());
    open_line_ = false;
  }
  void Close() {
    if (open_line_) std::fprintf(stderr, "\n");
    open_line_ = false;
  }

 private:
  static int Columns() {
    winsize size{};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col - 1;
    return 100;
  }

  const ProgressMode mode_;
  int64_t last_step_ = -1;
  bool open_line_ = false;
};

// Blocks the signals that stop a run and makes them readable; restores the mask at the end.
class StopSignals {
 public:
  StopSignals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, &old_);
    fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~StopSignals() {
    close(fd_);
    pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int fd() const { return fd_; }
  // How many arrived since the last call.
  int Take() const {
    int count = 0;
    signalfd_siginfo info;
    while (read(fd_, &info, sizeof(info)) == sizeof(info)) ++count;
    return count;
  }

 private:
  sigset_t old_;
  int fd_;
};

std::vector<ReplicaId> ReplicasOf(const JobConfig& job) {
  std::vector<ReplicaId> replicas;
  for (int i = 0; i < job.ps.replicas; ++i) replicas.push_back({Role::kPs, i});
  for (int i = 0; i < job.chief.replicas; ++i) replicas.push_back({Role::kChief, i});
  for (int i = 0; i < job.worker.replicas; ++i) replicas.push_back({Role::kWorker, i});
  for (int i = 0; i < job.evaluator.replicas; ++i) replicas.push_back({Role::kEvaluator, i});
  return replicas;
}

class LocalRun {
 public:
  LocalRun(const JobConfig& job, const LaunchOptions& options, std::vector<ReplicaId> replicas, std::vector<ReplicaPorts> ports)
      : job_(job),
        options_(options),
        folder_(options.output),
        replicas_(std::move(replicas)),
        ports_(std::move(ports)),
        start_(absl::Now()),
        view_(options.progress),
        supervisor_(job, replicas_, {}, start_) {}

  absl::StatusOr<JobState> Run() {
    TY_RETURN_IF_ERROR(folder_.Prepare(job_, CpuQuota(), replicas_, ports_));
    while (!supervisor_.Done()) {
      for (const Action& action : supervisor_.Advance(absl::Now())) TY_RETURN_IF_ERROR(Do(action));
      ReportNewFailures();
      if (supervisor_.Done()) break;
      Wait();
      ShowProgress();
    }
    ReportNewFailures();
    if (supervisor_.state() == JobState::kSucceeded && last_progress_.total_steps > 0) {
      TY_RETURN_IF_ERROR(TakeLastStep());
      last_progress_.eta = absl::ZeroDuration();
      if (view_.wanted()) view_.Show(last_progress_);
    }
    view_.Close();
    TY_RETURN_IF_ERROR(Conclude());
    return supervisor_.state();
  }

 private:
  absl::Status Do(const Action& action) {
    const ReplicaId& id = replicas_[action.replica];
    switch (action.kind) {
      case Action::Kind::kStart: {
        const std::vector<std::string> argv = {options_.program, "train",       "--output",
                                               folder_.dir(),    "--http_port", fmt::format("{}", ports_[action.replica].http_port)};
        TY_ASSIGN_OR_RETURN(ReplicaProcess process,
                            ReplicaProcess::Start({.argv = argv, .environment = folder_.Environment(id), .log_path = folder_.LogPath(id)}));
        running_.insert_or_assign(action.replica, std::move(process));
        break;
      }
      case Action::Kind::kTerminate:
        running_.at(action.replica).Signal(SIGTERM);
        break;
      case Action::Kind::kKill:
        running_.at(action.replica).Signal(SIGKILL);
        break;
    }
    return absl::OkStatus();
  }

  // Until a replica ends, a signal comes, the supervisor or the progress view is due.
  void Wait() {
    std::vector<pollfd> fds = {{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
    std::vector<int> indices;
    for (const auto& [index, process] : running_) {
      fds.push_back({.fd = process.pidfd(), .events = POLLIN, .revents = 0});
      indices.push_back(index);
    }
    const absl::Time wake = std::min(supervisor_.NextWake(), view_.wanted() ? next_progress_ : absl::InfiniteFuture());
    const int64_t timeout =
        wake == absl::InfiniteFuture() ? 60000 : std::clamp<int64_t>(absl::ToInt64Milliseconds(wake - absl::Now()) + 1, 0, 60000);
    poll(fds.data(), fds.size(), static_cast<int>(timeout));
    for (int signals = signals_.Take(); signals > 0; --signals) {
      view_.Say("stopping: the replicas write a checkpoint; press Ctrl-C again to stop at once");
      supervisor_.StopRequested(absl::Now());
    }
    for (size_t i = 0; i < indices.size(); ++i) {
      if (fds[i + 1].revents == 0) continue;
      const auto ended = running_.find(indices[i]);
      const ExitStatus exit = ended->second.Reap();
      running_.erase(ended);
      supervisor_.Exited(indices[i], exit, absl::Now());
    }
  }

  void ShowProgress() {
    const absl::Time now = absl::Now();
    if (!view_.wanted() || now < next_progress_) return;
    next_progress_ = now + view_.period();
    const absl::StatusOr<Progress> progress = FetchProgress(ports_[ChiefIndex()].http_port, kFetchTimeout);
    if (!progress.ok() || progress->total_steps == 0) return;  // not listening yet, or restarting
    last_progress_ = *progress;
    view_.Show(last_progress_);
  }

  // A job that stopped early has fewer steps than were planned.
  absl::Status TakeLastStep() {
    TY_ASSIGN_OR_RETURN(const std::vector<ReplicaReport> reports, ReadReplicaReports(folder_.dir()));
    const auto chief = std::ranges::find_if(reports, &ReplicaReport::chief);
    if (chief != reports.end() && chief->stopped_early) last_progress_.total_steps = chief->steps;
    last_progress_.step = last_progress_.total_steps;
    return absl::OkStatus();
  }

  int ChiefIndex() const {
    const auto chief = std::ranges::find_if(replicas_, [this](const ReplicaId& id) {
      return id.role == (job_.chief.replicas > 0 ? Role::kChief : Role::kWorker) && id.index == 0;
    });
    return static_cast<int>(chief - replicas_.begin());
  }

  void ReportNewFailures() {
    for (; told_ < supervisor_.failures().size(); ++told_) {
      const ReplicaFailure& failure = supervisor_.failures()[told_];
      view_.Say(fmt::format("{}: {} after {:.1f} s{}", failure.replica, Describe(failure.exit), failure.seconds,
                            failure.restarted ? "; restarting it" : ""));
      const std::string tail = TailOf(fmt::format("{}/logs/{}.log", folder_.dir(), failure.replica), kLogTailBytes);
      if (!failure.restarted && !tail.empty()) view_.Say(tail);
    }
  }

  // Merges what the replicas left and prints the summary.
  absl::Status Conclude() {
    JobOutcome outcome;
    TY_ASSIGN_OR_RETURN(outcome.profile, MergeProfiles(folder_.dir()));
    outcome.job = job_.name;
    outcome.state = std::string(JobStateName(supervisor_.state()));
    outcome.workers = job_.worker.replicas + job_.chief.replicas;
    outcome.ps = job_.ps.replicas;
    outcome.seconds = absl::ToDoubleSeconds(absl::Now() - start_);
    for (const ReplicaFailure& failure : supervisor_.failures()) {
      outcome.failures.push_back({.replica = failure.replica, .reason = Describe(failure.exit)});
      if (failure.restarted) outcome.restarts.push_back({.replica = failure.replica, .reason = Describe(failure.exit)});
    }
    TY_ASSIGN_OR_RETURN(const std::vector<ReplicaReport> reports, ReadReplicaReports(folder_.dir()));
    TY_RETURN_IF_ERROR(WriteReport(folder_.dir(), outcome, reports));
    std::printf("%s", SummaryText(MergeReport(outcome, reports),
                                  {.dir = folder_.dir(),
                                   .file = options_.file,
                                   .called_as = options_.called_as,
                                   .profile = outcome.profile ? OperatorTableText(*outcome.profile, kOperatorsShown, 0) : ""})
                          .c_str());
    if (!supervisor_.message().empty()) std::printf("\n%s: %s\n", outcome.state.c_str(), supervisor_.message().c_str());
    return absl::OkStatus();
  }

  const JobConfig& job_;
  const LaunchOptions& options_;
  const JobFolder folder_;
  const std::vector<ReplicaId> replicas_;
  const std::vector<ReplicaPorts> ports_;
  const absl::Time start_;
  StopSignals signals_;
  ProgressView view_;
  Supervisor supervisor_;
  std::map<int, ReplicaProcess> running_;
  absl::Time next_progress_ = absl::InfinitePast();
  Progress last_progress_;
  size_t told_ = 0;
};

}  // namespace

absl::StatusOr<JobState> LaunchLocally(const JobConfig& job, const LaunchOptions& options) {
  std::vector<ReplicaId> replicas = ReplicasOf(job);
  TY_ASSIGN_OR_RETURN(const std::vector<uint16_t> free, FreePorts(static_cast<int>(2 * replicas.size())));
  std::vector<ReplicaPorts> ports;
  for (size_t i = 0; i < replicas.size(); ++i) ports.push_back({.port = free[2 * i], .http_port = free[2 * i + 1]});
  return LocalRun(job, options, std::move(replicas), std::move(ports)).Run();
}

}  // namespace trainyard::engine
