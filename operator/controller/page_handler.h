// What pages answer to the requests that an HttpServer hands them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard::control {

struct PageRequest {
  std::string_view path;  // "/api/v1/jobs", unescaped, without the query
  std::string_view host;  // the header Host; empty: there is none
  bool watch = false;     // ?watch=true: a stream of changes is asked for
};

// The texts of one stream of server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html).
class EventSource {
 public:
  virtual ~EventSource() = default;
  // All that is new since the last call, as whole events; null: nothing is. From the server's
  // thread, once the text before has been sent: must not wait.
  virtual std::shared_ptr<const std::string> Next() = 0;
};

struct PageAnswer {
  unsigned code = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::shared_ptr<const std::string> body;  // kept until it is sent; null: empty
  std::unique_ptr<EventSource> events;      // not null: a stream in place of the body
  std::vector<std::pair<std::string, std::string>> headers;
};

// From the server's thread, which answers all: must not wait.
using PageHandler = std::function<PageAnswer(const PageRequest&)>;

}  // namespace trainyard::control
