// A transport whose streams begin with mutual_challenge.h: both ends prove that they hold the job's
// key. Before that no record reaches a handler, and none is sent for it. docs/security.md says what
// that protects from.
#pragma once

#include <functional>
#include <memory>

#include "trainer/transport/job_key.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// Thread-safe, as every transport. `key` is asked for each stream. A listener refuses a peer that
// does not prove the key: OnClosed says Unauthenticated, and so is the peer told. A dialler that
// meets a listener without the key ends the stream as Unavailable. The address may be another job's
// for now (a pod's address that was given anew), so dialling again is right.
std::unique_ptr<Transport> MakeAuthenticatedTransport(std::unique_ptr<Transport> transport, std::function<JobKey()> key);

}  // namespace trainyard::engine
