// The paths of the operator's page.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/controller/page_handler.h"
#include "operator/page/job_feed.h"

namespace trainyard::control {

// Answers /, /page.css, /page.js, /api/v1/jobs and /api/v1/jobs/NAMESPACE/NAME, the last two also
// as streams. Every answer forbids scripts, styles and frames of others. `feed` must outlive it.
//
// A request must name this machine, an IP address or one of `hosts` as its Host. Without that rule
// any site could read the page: it would give its own name this address (DNS rebinding).
PageHandler PageRoutes(JobFeed& feed, std::vector<std::string> hosts);

// Whether the header Host, "localhost:8081", names one of those. Pure.
bool IsOwnHost(std::string_view host, const std::vector<std::string>& hosts);

}  // namespace trainyard::control
