#include "trainer/launch/local_launcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "trainer/base/clock.h"
#include "trainer/base/cpu_quota.h"
#include "trainer/base/file.h"
#include "trainer/base/log.h"
#include "trainer/base/reserved_ports.h"
#include "trainer/base/status_macros.h"
#include "trainer/base/wait_notice.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/evaluation_log.h"
#include "trainer/job/exit_code.h"
#include "trainer/job/output_folders.h"
#include "trainer/launch/earlier_run.h"
#include "trainer/launch/evaluation_news.h"
#include "trainer/launch/job_folder.h"
#include "trainer/launch/open_browser.h"
#include "trainer/launch/output_lock.h"
#include "trainer/launch/progress_client.h"
#include "trainer/launch/progress_text.h"
#include "trainer/launch/replica_log.h"
#include "trainer/launch/report_text.h"
#include "trainer/launch/stop_signals.h"
#include "trainer/page/live_page.h"
#include "trainer/page/page_html.h"
#include "trainer/profile/merge_profiles.h"
#include "trainer/report/report.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kBarPeriod = absl::Milliseconds(200);
constexpr absl::Duration kLinePeriod = absl::Seconds(2);
constexpr absl::Duration kPagePeriod = absl::Milliseconds(500);
constexpr absl::Duration kLastLook = absl::Seconds(3);
constexpr absl::Duration kFetchTimeout = absl::Milliseconds(200);
constexpr absl::Duration kWaitLookPeriod = absl::Seconds(1);
constexpr int64_t kLogTailBytes = 1 << 16;
constexpr absl::Duration kKillMargin = absl::Seconds(2);  // after timeouts.stop, at which a replica ends itself
constexpr size_t kOperatorsShown = 5;

// Draws progress on standard error: one line redrawn, lines now and then, or nothing.
class ProgressView {
 public:
  explicit ProgressView(ProgressMode mode) : mode_(mode) {}

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

std::vector<ReplicaId> ReplicasOf(const JobConfig& job) {
  std::vector<ReplicaId> replicas;
  for (int i = 0; i < job.ps.replicas; ++i) replicas.push_back({Role::kPs, i});
  for (int i = 0; i < job.chief.replicas; ++i) replicas.push_back({Role::kChief, i});
  for (int i = 0; i < job.worker.replicas; ++i) replicas.push_back({Role::kWorker, i});
  for (int i = 0; i < job.evaluator.replicas; ++i) replicas.push_back({Role::kEvaluator, i});
  return replicas;
}

bool IsThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

class LocalRun {
 public:
  LocalRun(const JobConfig& job, const LaunchOptions& options, std::vector<ReplicaId> replicas, std::vector<ReplicaPorts> ports)
      : job_(job),
        options_(options),
        folder_(options.output),
        replicas_(std::move(replicas)),
        ports_(std::move(ports)),
        start_(RealClock().Now()),
        earlier_profiles_(folder_.dir()),
        first_step_(CheckpointedStep().value_or(0)),
        view_(options.progress),
        supervisor_(job, replicas_, {.stop_grace = job.training.timeouts.stop + kKillMargin}, start_) {}

  absl::StatusOr<int> Run() {
    TY_ASSIGN_OR_RETURN(const EarlierRun earlier, EarlierRun::SetAside(folder_.dir()));
    const absl::StatusOr<int> code = RunBeside(earlier);
    if (!code.ok()) TY_RETURN_IF_ERROR(earlier.PutBack());
    return code;
  }

 private:
  absl::StatusOr<int> RunBeside(const EarlierRun& earlier) {
    TY_RETURN_IF_ERROR(folder_.Prepare(job_, CpuQuota(), replicas_, ports_));
    if (options_.open) TY_RETURN_IF_ERROR(OpenPage());
    while (!supervisor_.Done()) {
      TY_RETURN_IF_ERROR(Advance());
      ReportNewFailures();
      ReportSecondStarts();
      if (supervisor_.Done()) break;
      Wait();
      ShowProgress();
    }
    ReportNewFailures();
    TY_RETURN_IF_ERROR(ShowEnd());
    view_.Close();
    TY_RETURN_IF_ERROR(Conclude(earlier));
    if (page_) page_->AwaitLastLook(kLastLook);
    return supervisor_.exit_code();
  }

  absl::Status OpenPage() {
    TY_ASSIGN_OR_RETURN(page_, LivePage::Start(folder_.dir(), job_.name));
    const bool opened = OpenBrowser(page_->address());
    view_.Say(fmt::format("the run's page{}: {}", opened ? ", in your browser" : "", page_->address()));
    return absl::OkStatus();
  }

  // Until nothing is to be done now: a replica that cannot be started may end the others.
  absl::Status Advance() {
    std::vector<Action> actions = supervisor_.Advance(RealClock().Now());
    for (; !actions.empty(); actions = supervisor_.Advance(RealClock().Now())) {
      for (const Action& action : actions) TY_RETURN_IF_ERROR(Do(action));
    }
    return absl::OkStatus();
  }

  absl::Status Do(const Action& action) {
    const ReplicaId& id = replicas_[action.replica];
    switch (action.kind) {
      case Action::Kind::kStart: {
        const std::vector<std::string> argv = {options_.program, "train",       "--output",
                                               folder_.dir(),    "--http_port", fmt::format("{}", ports_[action.replica].http_port)};
        log_begins_[action.replica] = LogSize(folder_.LogPath(id));
        absl::StatusOr<ReplicaProcess> process =
            ReplicaProcess::Start({.argv = argv, .environment = folder_.Environment(id), .log_path = folder_.LogPath(id)});
        if (!process.ok()) return NotStarted(action.replica, process.status());
        running_.insert_or_assign(action.replica, *std::move(process));
        has_run_.insert(action.replica);
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

  // A replica that cannot be started. Before it has run, that is the launch's own error. Later
  // others have work to save, so it is a failure of the replica.
  absl::Status NotStarted(int replica, const absl::Status& why) {
    if (!has_run_.contains(replica)) return why;
    supervisor_.Exited(replica, {.code = ExitCodeOf(why), .signal = 0}, RealClock().Now(), std::string(why.message()));
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
    const absl::Time wake = std::min(supervisor_.NextWake(), next_progress_);
    const int64_t timeout =
        wake == absl::InfiniteFuture() ? 60000 : std::clamp<int64_t>(absl::ToInt64Milliseconds(wake - RealClock().Now()) + 1, 0, 60000);
    poll(fds.data(), fds.size(), static_cast<int>(timeout));
    for (int signals = signals_.Take(); signals > 0; --signals) TellStop(supervisor_.StopRequested(RealClock().Now()));
    for (size_t i = 0; i < indices.size(); ++i) {
      if (fds[i + 1].revents == 0) continue;
      const auto ended = running_.find(indices[i]);
      const ExitStatus exit = ended->second.Reap();
      running_.erase(ended);
      const bool was_running = supervisor_.state() == JobState::kRunning;
      supervisor_.Exited(indices[i], exit, RealClock().Now(), exit.code == 0 ? "" : LastErrorOf(indices[i]));
      // A job that fails before its first step has nothing to save.
      if (was_running && supervisor_.state() == JobState::kFailed && !HasSteps()) supervisor_.KillAll();
    }
  }

  void TellStop(StopAnswer answer) {
    constexpr std::string_view kAgain = "press Ctrl-C again to stop at once";
    if (answer == StopAnswer::kStops) view_.Say(fmt::format("stopping: the replicas write a checkpoint; {}", kAgain));
    if (answer == StopAnswer::kWaits) view_.Say(fmt::format("the job has failed, and its replicas write a checkpoint; {}", kAgain));
    if (answer == StopAnswer::kKills) view_.Say("stopping at once");
  }

  // Follows the chief's progress, which a job that fails tells at its end, and shows it.
  void ShowProgress() {
    const absl::Time now = RealClock().Now();
    if (now < next_progress_) return;
    const absl::StatusOr<Progress> progress = FetchProgress(ports_[ChiefIndex()].http_port, kFetchTimeout);
    const absl::Duration at_most = !progress.ok() ? kBarPeriod : page_ != nullptr ? kPagePeriod : absl::InfiniteDuration();
    next_progress_ = now + std::min(view_.period(), at_most);
    if (page_ != nullptr && progress.ok()) page_->Update(*progress);
    if (view_.wanted()) ShowWait(now, progress.ok() ? progress->waiting : "");
    if (view_.wanted()) ShowSilence(now, progress.ok());
    if (!progress.ok() || progress->total_steps == 0) return;  // not listening yet, or restarting
    if (view_.wanted()) TellNews(progress->evaluations, progress->warning, /*end=*/false);
    last_progress_ = *progress;
    if (!view_.wanted() || now < next_line_) return;
    next_line_ = now + view_.period();
    view_.Show(last_progress_);
  }

  // Tells the waits for replicas: as the first server knows them, else as the chief does. The chief
  // also waits for servers and, without any, for ranks.
  void ShowWait(absl::Time now, std::string waiting) {
    if (now < next_wait_look_) return;
    next_wait_look_ = now + kWaitLookPeriod;
    if (replicas_[0].role == Role::kPs) {
      const absl::StatusOr<Progress> server = FetchProgress(ports_[0].http_port, kFetchTimeout);
      if (server.ok() && !server->waiting.empty()) waiting = server->waiting;
    }
    if (!waiting.empty() && wait_notice_.Due(now)) view_.Say(waiting);
  }

  // A chief that does not answer for a while, as it reads its data: the newest line of its log.
  void ShowSilence(absl::Time now, bool answers) {
    const int chief = ChiefIndex();
    if (answers || !running_.contains(chief)) return silence_.reset();
    if (!silence_) silence_.emplace(now, kShownWait);
    if (!silence_->Due(now)) return;
    const ReplicaId& id = replicas_[chief];
    const std::string line = LastLineIn(LogSince(folder_.LogPath(id), log_begins_.at(chief), kLogTailBytes));
    if (!line.empty() && line != last_line_) view_.Say(fmt::format("{}: {}", Name(id), line));
    last_line_ = line;
  }

  EvaluationNews::Log LoggedEvaluations() const {
    const absl::StatusOr<EvaluationLog> log = EvaluationLog::Open(CheckpointFolder(folder_.dir(), job_.training));
    return log.ok() ? log->evaluations() : EvaluationNews::Log();  // the replica that writes it tells what is wrong with it
  }

  // Each evaluation and each warning, once.
  void TellNews(const std::vector<Evaluation>& evaluations, const std::string& warning, bool end) {
    for (const Evaluation& evaluation : evaluation_news_.Take(evaluations, end, [this] { return LoggedEvaluations(); })) {
      view_.Say(EvaluationLine(evaluation));
    }
    if (!warning.empty() && warning != last_progress_.warning) view_.Say("warning: " + warning);
  }

  // The end of the training, after the last answer of /progress.
  absl::Status ShowEnd() {
    if (!view_.wanted()) return absl::OkStatus();
    TY_ASSIGN_OR_RETURN(const std::vector<ReplicaReport> reports, ReadReplicaReports(folder_.dir()));
    const auto chief = std::ranges::find_if(reports, &ReplicaReport::chief);
    if (chief == reports.end()) return absl::OkStatus();
    std::vector<Evaluation> evaluations;
    for (const EpochRecord& record : chief->history) {
      if (!record.eval.empty()) evaluations.push_back({.step = record.step, .epoch = record.epoch, .metrics = record.eval});
    }
    TellNews(evaluations, "", /*end=*/true);
    last_progress_ = AtEnd(last_progress_, *chief);
    if (last_progress_.total_steps > 0) view_.Show(last_progress_);
    return absl::OkStatus();
  }

  // The step of the newest checkpoint.
  std::optional<int64_t> CheckpointedStep() const {
    const absl::StatusOr<std::vector<int64_t>> steps = CheckpointStore(CheckpointFolder(folder_.dir(), job_.training), /*keep=*/1).Steps();
    return steps.ok() && !steps->empty() ? std::optional(steps->front()) : std::nullopt;
  }

  // Whether the training is further than this launch found it.
  bool HasTrained(const std::vector<ReplicaReport>& reports) const {
    return std::max(CheckpointedStep().value_or(0), last_progress_.step) > first_step_ ||
           std::ranges::any_of(reports, [](const ReplicaReport& report) { return report.worker && report.worker->batches > 0; });
  }

  int ChiefIndex() const {
    const auto chief = std::ranges::find_if(replicas_, [this](const ReplicaId& id) {
      return id.role == (job_.chief.replicas > 0 ? Role::kChief : Role::kWorker) && id.index == 0;
    });
    return static_cast<int>(chief - replicas_.begin());
  }

  // The last error in the log of the replica's process, which has ended.
  std::string LastErrorOf(int replica) const {
    const std::string path = folder_.LogPath(replicas_[replica]);
    return LastErrorIn(LogSince(path, log_begins_.at(replica), kLogTailBytes));
  }

  bool HasSteps() const {
    const absl::StatusOr<Progress> progress = FetchProgress(ports_[ChiefIndex()].http_port, kFetchTimeout);
    return progress.ok() && progress->step > 0;
  }

  // The failure that ends the job is told at its end.
  void ReportNewFailures() {
    for (; told_ < supervisor_.failures().size(); ++told_) {
      const ReplicaFailure& failure = supervisor_.failures()[told_];
      const bool ended_job = !failure.restarted && supervisor_.state() == JobState::kFailed && told_ + 1 == supervisor_.failures().size();
      if (ended_job) continue;
      const std::string then = !failure.restarted ? "it does not start again; the training goes on"
                               : failure.restart > 0
                                   ? fmt::format("it starts again (restart {} of {})", failure.restart, job_.run_policy.backoff_limit)
                                   : "it starts again";
      view_.Say(fmt::format("{}\n  {:.1f} s after the start, {}", Describe(failure), failure.seconds, then));
    }
  }

  void ReportSecondStarts() {
    for (; told_second_starts_ < supervisor_.second_starts().size(); ++told_second_starts_) {
      const SecondStart& again = supervisor_.second_starts()[told_second_starts_];
      view_.Say(fmt::format("{} had ended, and {} still {} {}: all start again from the last checkpoint", fmt::join(again.replicas, ", "),
                            fmt::join(again.needed_by, ", "), again.needed_by.size() == 1 ? "needs" : "need",
                            again.replicas.size() == 1 ? "it" : "them"));
    }
  }

  // Merges what the replicas left and prints the summary. The report of the launch before stays
  // where this one has nothing to add to it.
  absl::Status Conclude(const EarlierRun& earlier) {
    JobOutcome outcome;
    earlier_profiles_.RemoveIfReplaced();
    absl::StatusOr<std::optional<MergedProfiles>> merged = MergeProfiles(folder_.dir());
    const bool has_profile = merged.ok() && merged->has_value();
    const absl::Status merge_status = has_profile ? (*merged)->written : merged.status();
    if (has_profile) outcome.profile = std::move((*merged)->table);
    if (!merge_status.ok()) {
      LogError("the profile of this run is not merged: {}. The training itself is not touched; mend the cause and run `{} profile {}`",
               std::string(merge_status.message()), options_.called_as, folder_.dir());
    }
    outcome.job = job_.name;
    outcome.state = std::string(JobStateName(supervisor_.state()));
    outcome.workers = job_.worker.replicas + job_.chief.replicas;
    outcome.ps = job_.ps.replicas;
    outcome.seconds = absl::ToDoubleSeconds(RealClock().Now() - start_);
    outcome.steps = std::max(CheckpointedStep().value_or(0), last_progress_.step);
    outcome.first_step = first_step_;
    outcome.planned_steps = last_progress_.total_steps;
    outcome.planned_epochs = job_.training.epochs;
    for (const ReplicaFailure& failure : supervisor_.failures()) {
      const std::string end = Describe(failure.exit);
      outcome.failures.push_back(
          {.replica = failure.replica, .reason = failure.error.empty() ? end : fmt::format("{}: {}", end, failure.error)});
      if (failure.restarted) outcome.restarts.push_back({.replica = failure.replica, .reason = Describe(failure.exit)});
    }
    for (const SecondStart& again : supervisor_.second_starts()) {
      const std::string reason = fmt::format("it had ended, and {} still needed it", fmt::join(again.needed_by, ", "));
      for (const std::string& replica : again.replicas) outcome.restarts.push_back({.replica = replica, .reason = reason});
    }
    TY_ASSIGN_OR_RETURN(const std::vector<ReplicaReport> reports, ReadReplicaReports(folder_.dir()));
    const bool keeps_earlier = !HasTrained(reports) && earlier.TellsMore(outcome.state, first_step_);
    const absl::Status written =
        keeps_earlier ? earlier.PutBack() : TellIfMayPass(WriteReport(folder_.dir(), outcome, reports), "report.json");
    if (!keeps_earlier) earlier.Forget();
    const absl::Status page = WriteReportPage(folder_.dir());
    if (!page.ok()) {
      LogError("report.html is not written: {}. The training itself is not touched; mend the cause and run `{} report {}`",
               std::string(page.message()), options_.called_as, folder_.dir());
    }
    const std::string profile = outcome.profile ? OperatorTableText(*outcome.profile, kOperatorsShown, 0) : "";
    const std::string checkpoints = CheckpointFolder(folder_.dir(), job_.training);
    const std::string summaries = SummaryFolder(folder_.dir(), job_.training);
    const std::string text =
        SummaryText(MergeReport(outcome, reports), {.dir = folder_.dir(),
                                                    .checkpoints = checkpoints,
                                                    .summaries = summaries,
                                                    .file = options_.file,
                                                    .called_as = options_.called_as,
                                                    .profile = profile,
                                                    .overrides = options_.overrides,
                                                    .serves_best = job_.serve ? std::optional(job_.serve->best) : std::nullopt,
                                                    .checkpoint_step = CheckpointedStep(),
                                                    .has_page = page.ok(),
                                                    .exists = IsThere});
    std::printf("%s", text.c_str());
    std::fflush(stdout);
    if (!supervisor_.message().empty()) std::fprintf(stderr, "\n%s: %s\n", outcome.state.c_str(), supervisor_.message().c_str());
    return written;
  }

  const JobConfig& job_;
  const LaunchOptions& options_;
  const JobFolder folder_;
  const std::vector<ReplicaId> replicas_;
  const std::vector<ReplicaPorts> ports_;
  const absl::Time start_;
  const EarlierProfiles earlier_profiles_;
  const int64_t first_step_;  // where the training goes on
  StopSignals signals_;
  ProgressView view_;
  Supervisor supervisor_;
  std::map<int, ReplicaProcess> running_;
  std::set<int> has_run_;              // replicas that were started once
  std::map<int, int64_t> log_begins_;  // where the log of a replica's newest process begins
  std::unique_ptr<LivePage> page_;     // null: not wanted
  absl::Time next_progress_ = absl::InfinitePast();
  absl::Time next_line_ = absl::InfinitePast();
  Progress last_progress_;
  absl::Time next_wait_look_ = absl::InfinitePast();
  std::optional<WaitNotice> silence_;                         // of the chief
  std::string last_line_;                                     // that was told of it
  WaitNotice wait_notice_{absl::InfinitePast(), kShownWait};  // servers leave out shorter waits
  size_t told_ = 0;
  size_t told_second_starts_ = 0;
  EvaluationNews evaluation_news_{LoggedEvaluations()};
};

}  // namespace

absl::StatusOr<int> LaunchLocally(const JobConfig& job, const LaunchOptions& options) {
  TY_ASSIGN_OR_RETURN(const OutputLock lock, OutputLock::Take(options.output));
  std::vector<ReplicaId> replicas = ReplicasOf(job);
  TY_ASSIGN_OR_RETURN(const ReservedPorts reserved, ReservedPorts::Reserve(2 * replicas.size()));
  std::vector<ReplicaPorts> ports;
  for (size_t i = 0; i < replicas.size(); ++i) ports.push_back({.port = reserved[2 * i], .http_port = reserved[2 * i + 1]});
  return LocalRun(job, options, std::move(replicas), std::move(ports)).Run();
}

}  // namespace trainyard::engine
