// The target of a request to the fake API server.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "operator/kube/transport.h"

namespace trainyard::control {

struct Target {
  std::string verb;        // get list watch create update patch delete
  std::string collection;  // "group/plural": the store's key
  std::string plural;
  std::string api_version;
  std::string ns;
  std::string name;
  std::string subresource;
  std::map<std::string, std::string> query;

  std::string Key() const { return ns.empty() ? name : ns + "/" + name; }
  // "pods", "trainingjobs/status".
  std::string Resource() const { return subresource.empty() ? plural : plural + "/" + subresource; }
  std::string Parameter(const std::string& key) const;
  // 0: there is none.
  int64_t Number(const std::string& key) const;
};

// The digits that the text begins with; 0: there are none.
int64_t NumberOf(const std::string& text);

// An empty verb: no path of the API.
Target ParseTarget(const HttpRequest& request);

}  // namespace trainyard::control
