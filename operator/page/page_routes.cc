#include "operator/page/page_routes.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "operator/page/page_files.h"

namespace trainyard::control {
namespace {

constexpr std::string_view kJobs = "/api/v1/jobs";
constexpr char kJson[] = "application/json";

using Text = std::shared_ptr<const std::string>;

Text Owned(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

PageAnswer Problem(unsigned code, std::string text) {
  PageAnswer answer;
  answer.code = code;
  answer.body = Owned(std::move(text));
  return answer;
}

PageAnswer Stream(std::unique_ptr<EventSource> events) {
  PageAnswer answer;
  answer.content_type = "text/event-stream";
  answer.events = std::move(events);
  return answer;
}

PageAnswer Body(std::string_view content_type, Text body) {
  PageAnswer answer;
  answer.content_type = content_type;
  answer.body = std::move(body);
  return answer;
}

struct File {
  std::string_view path;
  std::string_view content_type;
  Text text;
};

const std::vector<File>& Files() {
  static const auto* const files = new std::vector<File>{
      {"/", "text/html; charset=utf-8", Owned(std::string(PageHtml()))},
      {"/page.css", "text/css; charset=utf-8", Owned(std::string(PageStyle()))},
      {"/page.js", "text/javascript; charset=utf-8",
       Owned(fmt::format("{}{}{}{}{}", DomScript(), CurveScript(), ListScript(), JobScript(), MainScript()))},
  };
  return *files;
}

PageAnswer Answer(JobFeed& feed, const PageRequest& request) {
  for (const File& file : Files()) {
    if (file.path == request.path) return Body(file.content_type, file.text);
  }
  if (request.path == kJobs) return request.watch ? Stream(feed.WatchJobs()) : Body(kJson, feed.Jobs());
  if (request.path.starts_with(kJobs) && request.path[kJobs.size()] == '/') {
    const std::string key(request.path.substr(kJobs.size() + 1));
    if (std::optional<std::string> job = feed.Job(key))
      return request.watch ? Stream(feed.WatchJob(key)) : Body(kJson, Owned(*std::move(job)));
    return Problem(404, "the operator sees no such job\n");
  }
  return Problem(404, "not found\n");
}

void AddSafetyHeaders(PageAnswer& answer) {
  answer.headers = {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
       "frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Referrer-Policy", "no-referrer"},
      {"Cache-Control", "no-store"},
  };
}

bool IsAddress(const std::string& text) {
  in6_addr address{};
  return inet_pton(AF_INET, text.c_str(), &address) == 1 || inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

}  // namespace

bool IsOwnHost(std::string_view host, const std::vector<std::string>& hosts) {
  if (host.starts_with('[')) return host.find(']') != host.npos && IsAddress(std::string(host.substr(1, host.find(']') - 1)));
  const std::string name(host.substr(0, host.find(':')));
  return name == "localhost" || IsAddress(name) || std::find(hosts.begin(), hosts.end(), name) != hosts.end();
}

PageHandler PageRoutes(JobFeed& feed, std::vector<std::string> hosts) {
  return [&feed, hosts = std::move(hosts)](const PageRequest& request) {
    PageAnswer answer;
    if (IsOwnHost(request.host, hosts)) {
      answer = Answer(feed, request);
    } else {
      answer = Problem(
          403, fmt::format("The page answers to localhost, to IP addresses and to the names of --page-hosts; this request is to '{}'.\n",
                           request.host.substr(0, 253)));
    }
    AddSafetyHeaders(answer);
    return answer;
  };
}

}  // namespace trainyard::control
