// A listener's port: accepts connections and lets in only those that begin as a stream does.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/transport/untrusted_connections.h"

namespace trainyard::engine {

// The first bytes of every HTTP/2 connection without TLS (RFC 9113, section 3.4).
inline constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

struct PortGateOptions {
  bool tls = false;                             // connections begin with a TLS record, not with the HTTP/2 preface
  absl::Duration deadline = absl::Seconds(10);  // from a connection's acceptance to its first bytes
  size_t most_waiting = 4096;                   // connections that have not said them yet: of more the oldest is dropped
};

// The verdict on a connection's first bytes.
enum class FirstBytes { kGood, kUnfinished, kBad };
// Pure.
FirstBytes JudgeFirstBytes(std::string_view bytes, bool tls);

// One thread accepts, looks at what connections say first without taking it, and closes those that
// say nothing or something else. A connection that waits costs a file and some hundred bytes. When
// the process runs out of files, the oldest connection that waits is dropped, or accepting pauses:
// it never ends. It adds to `untrusted` what it lets in.
class PortGate {
 public:
  // Both are called from the gate's thread and must not block. `admit` owns the socket, which does
  // not block and has nothing read. Peers are named as gRPC names them: "ipv4:10.0.0.7:41234",
  // "ipv6:[fd00::7]:41234".
  using Admit = std::function<void(int socket)>;
  using TurnAway = std::function<void(const std::string& peer, const absl::Status& why)>;

  // host:port, port 0: any; 0.0.0.0: all interfaces, IPv6 too. Unavailable: why the address cannot
  // be listened at.
  static absl::StatusOr<std::unique_ptr<PortGate>> Listen(const std::string& address, PortGateOptions options,
                                                          std::shared_ptr<UntrustedConnections> untrusted, Admit admit, TurnAway turn_away);
  // Closes what waits and joins the thread.
  virtual ~PortGate() = default;
  virtual int port() const = 0;
};

}  // namespace trainyard::engine
