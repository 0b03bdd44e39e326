// The peers of a server's streams: workers, evaluators, and peers that have not said hello.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "trainer/base/job_settings.h"
#include "trainer/kvstore/mode.h"
#include "trainer/kvstore/ranks.h"
#include "trainer/transport/awaited_hellos.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// The other end of a stream.
struct Peer {
  std::shared_ptr<Stream> stream;
  int worker = kObserver;
  bool chief = false;
  absl::Time heard;
  int64_t joins = 0;  // Member::joins when this stream was the newest: tells streams of one worker apart
  int64_t bytes = 0;  // both ways, when it was looked at last: a peer that receives a long tensor sends nothing, but is not silent
};

// The state of a worker, connected or not.
struct Member {
  std::shared_ptr<Stream> stream;  // null: not connected
  absl::Time lost_since;           // or since the server has waited for its first stream
  bool member = false;             // one of those that the server was started for, or that came since (an async job that was scaled up)
  bool left = false;
  bool done = false;
  int64_t joins = 0;
  std::string vocabulary;                           // as its last hello told
  JobSettings settings;                             // the same
  int64_t end = -1;                                 // the same: the step before which it ends; -1: it has told none
  uint64_t activity = 0;                            // as its last heartbeat counted it
  absl::Time active_at = absl::InfinitePast();      // when that count last changed
  absl::Time process_since = absl::InfinitePast();  // when its newest process first said hello
};

struct MembersOptions {
  KvMode mode = KvMode::kAsync;
  int workers = 1;  // that the server was started for
  int places = 1;   // workers that there can be
  absl::Duration hello;
  absl::Duration silence;  // a worker without a stream for so long trains no more
};

// After the release a worker that has not come to a new server for so long had left before. A
// worker that is there dials a lost server again within half a second, and a dial takes at most 5
// s.
constexpr absl::Duration kDialledWithin = absl::Seconds(6);

// Not thread-safe; time is what its caller says it is.
class Members {
 public:
  Members(const MembersOptions& options, absl::Time now);

  // A stream without a hello yet; the hello's deadline begins.
  void Opened(const std::shared_ptr<Stream>& stream, absl::Time now) { awaited_.Opened(stream, now); }
  // Streams whose hello is late, each once.
  std::vector<std::shared_ptr<Stream>> TakeLate(absl::Time now) { return awaited_.TakeLate(now); }

  // True: this hello was awaited. Nobody waits for it after the call.
  bool ForgetAwaited(const Stream* stream) { return awaited_.Forget(stream); }

  struct Hello {
    int worker = kObserver;
    bool chief = false;
    bool left = false;
    bool new_process = false;  // it knows no position
    std::string vocabulary;
    JobSettings settings = {};
    int64_t end = 0;
  };
  bool Knows(const Stream* stream) const { return peers_.contains(stream); }
  // Returns the worker's stream before, which this one replaces; null: there was none.
  std::shared_ptr<Stream> Join(const std::shared_ptr<Stream>& stream, const Hello& hello, absl::Time now);
  // The stream has ended: the peer that it was of. Nobody: the peer had not said so. `lost` of a
  // worker: it was the newest stream.
  struct Gone {
    Peer peer;
    bool lost = false;
  };
  std::optional<Gone> Forget(const std::shared_ptr<Stream>& stream, absl::Time now);

  // Null: it has not said hello. Hears it.
  const Peer* Hear(const Stream* stream, absl::Time now);
  // A newer stream of the same worker has taken its place.
  bool IsReplaced(const Peer& peer) const { return peer.worker != kObserver && workers_[peer.worker].stream != peer.stream; }
  // Streams on which nothing has moved for the longest silence.
  std::vector<Peer> TakeSilent(absl::Time now);
  // A worker is at work on something else: `activity` as its heartbeat counts it.
  void ShowActivity(int worker, uint64_t activity, absl::Time now);
  // Sync: the result is safe, workers may leave; false: the training was rolled back since.
  void Release(bool released) { released_ = released; }

  // Workers that may still push.
  int CountTraining(absl::Time now) const;
  bool IsTraining(int worker, absl::Time now) const;
  // Async: by place, the step before which each worker ends; -1: it does not train. Workers that
  // are awaited yet are to do as many steps as `chief`. Workers that were taken away have left and
  // not come back.
  std::vector<int64_t> Ends(size_t chief, absl::Time now) const;
  // Every worker has said goodbye.
  bool AllDone() const;
  // FailedPrecondition names two connected workers whose vocabularies differ, if one is `worker`:
  // each makes it of its own copy of the text.
  absl::Status CheckVocabulary(int worker, const std::string& vocabulary) const;
  static absl::Status DifferentVocabularies(std::string_view whose, size_t other, const std::string& theirs, int worker,
                                            const std::string& ours);
  // The same of the settings of their job files.
  absl::Status CheckSettings(int worker, const JobSettings& settings) const;
  // `whose` has one side of the difference: "worker 0", "this server".
  static absl::Status DifferentSettings(std::string_view whose, const JobSettings& theirs, int worker, const JobSettings& ours);

  const std::map<const Stream*, Peer>& peers() const { return peers_; }
  const std::vector<Member>& workers() const { return workers_; }
  Member& worker(int index) { return workers_[index]; }
  // "connected, but has neither pushed nor done anything else", "never connected", "lost for 3.1s"
  std::string Describe(int worker, absl::Time now) const;
  // Of streams that have ended, too.
  StreamTraffic traffic() const;

 private:
  // How long a worker without a stream may still push.
  absl::Duration Patience(const Member& worker) const;

  const MembersOptions options_;
  bool released_ = false;
  AwaitedHellos awaited_;
  std::map<const Stream*, Peer> peers_;
  std::vector<Member> workers_;
  StreamTraffic ended_traffic_;
};

}  // namespace trainyard::engine
