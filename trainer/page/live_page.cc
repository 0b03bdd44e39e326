#include "trainer/page/live_page.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "trainer/base/clock.h"
#include "trainer/base/mutex.h"
#include "trainer/base/notification.h"
#include "trainer/base/status_macros.h"
#include "trainer/page/curve.h"
#include "trainer/page/page_html.h"
#include "trainer/page/run_reader.h"
#include "trainer/report/bounded_http_server.h"

namespace trainyard::engine {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostPoints = 2000;
constexpr absl::Duration kOpenPage = absl::Seconds(5);  // an open page asks once a second

}  // namespace

struct LivePage::State {
  State(std::string its_dir, std::string its_job) : job(std::move(its_job)), reader(std::move(its_dir)) {
    server.set_pre_routing_handler(Refused);
    server.set_default_headers({{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}});
    server.Get("/", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(PageHtml({{"live", true}, {"runs", ordered_json::array({{{"name", job}}})}}), "text/html; charset=utf-8");
    });
    server.Get("/run.json", [this](const httplib::Request&, httplib::Response& response) { AnswerRun(response); });
  }

  static httplib::Server::HandlerResponse Refused(const httplib::Request& request, httplib::Response& response) {
    const std::string host = request.get_header_value("Host");
    const std::string name = host.substr(0, host.find(':'));  // a tunnel has a port of its own
    if (name == "127.0.0.1" || name == "localhost") return httplib::Server::HandlerResponse::Unhandled;
    response.status = 403;
    response.set_content("this page is for browsers of this machine: ask for 127.0.0.1\n", "text/plain");
    return httplib::Server::HandlerResponse::Handled;
  }

  void AnswerRun(httplib::Response& response) {
    absl::StatusOr<ordered_json> run = [this] {
      const int64_t planned_steps = [this] {
        const MutexLock lock(&mutex);
        return progress.total_steps;
      }();
      const MutexLock lock(&reading);
      return reader.Read(planned_steps);
    }();
    if (!run.ok()) {
      response.status = 503;
      response.set_content(std::string(run.status().message()), "text/plain");
      return;
    }
    const bool over = run->contains("report");
    if (!over) (*run)["name"] = job;
    (*run)["served"] = true;  // its other files are not
    {
      const MutexLock lock(&mutex);
      last_look = RealClock().Now();
      (*run)["progress"] = ordered_json::parse(ProgressJson(progress));
      for (const CurvePoint& point : Downsample(losses, kMostPagePoints)) (*run)["live"].push_back({point.step, point.value});
    }
    response.set_content(ScriptJson({{"runs", ordered_json::array({*std::move(run)})}}), "application/json");
    if (over) last_taken.Notify();
  }

  const std::string job;
  Mutex reading;
  RunReader reader ABSL_GUARDED_BY(reading);
  Mutex mutex;
  Progress progress ABSL_GUARDED_BY(mutex);
  std::vector<CurvePoint> losses ABSL_GUARDED_BY(mutex);  // steps rise
  absl::Time last_look ABSL_GUARDED_BY(mutex) = absl::InfinitePast();
  Notification last_taken;   // the report was answered
  BoundedHttpServer server;  // last: its threads use all of the above
};

LivePage::LivePage(std::unique_ptr<State> state) : state_(std::move(state)) {}
LivePage::~LivePage() = default;

absl::StatusOr<std::unique_ptr<LivePage>> LivePage::Start(std::string dir, std::string job) {
  auto state = std::make_unique<State>(std::move(dir), std::move(job));
  const absl::Status started = state->server.Start("the page of the run", "127.0.0.1", 0);
  if (!started.ok()) return absl::UnavailableError(fmt::format("{}; or leave out --open", std::string(started.message())));
  return std::unique_ptr<LivePage>(new LivePage(std::move(state)));
}

std::string LivePage::address() const { return fmt::format("http://127.0.0.1:{}/", state_->server.port()); }

void LivePage::Update(const Progress& progress) {
  const MutexLock lock(&state_->mutex);
  state_->progress = progress;
  std::vector<CurvePoint>& losses = state_->losses;
  while (!losses.empty() && losses.back().step >= progress.step) losses.pop_back();  // as many as were rolled back
  if (progress.loss) losses.push_back({.step = progress.step, .value = *progress.loss});
  if (losses.size() > kMostPoints) losses = Downsample(losses, kMostPoints / 2);
}

void LivePage::AwaitLastLook(absl::Duration patience) {
  {
    const MutexLock lock(&state_->mutex);
    if (RealClock().Now() - state_->last_look > kOpenPage) return;
  }
  state_->last_taken.WaitForNotificationWithTimeout(patience);
}

}  // namespace trainyard::engine
