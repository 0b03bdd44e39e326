#include "trainer/transport/authenticated_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "trainer/transport/grpc_transport.h"
#include "trainer/transport/inproc_transport.h"
#include "trainer/transport/mutual_challenge.h"
#include "trainer/transport/test_deadline.h"
#include "trainer/transport/test_inbox.h"
#include "trainer/transport/test_job_key.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Record Numbered(uint64_t step, size_t bytes = 0) {
  Record record;
  record.header.op = WireOp::kHello;
  record.header.step = step;
  record.payload = Payload::OfText(std::string(bytes, 'x'));
  record.header.length = static_cast<uint32_t>(bytes);
  return record;
}

// One server and one dialler, each with a key or without, over gRPC on loopback.
struct Pair {
  Pair(std::optional<JobKey> server_key, std::optional<JobKey> dialler_key) : server(Make(server_key)), dialler(Make(dialler_key)) {
    listener = server->Listen("127.0.0.1:0", served).value();
    stream = dialler->Dial(listener->address(), received, kSoon);
  }
  static std::unique_ptr<Transport> Make(const std::optional<JobKey>& key) {
    return key ? MakeAuthenticatedTransport(MakeGrpcTransport(), [key] { return *key; }) : MakeGrpcTransport();
  }

  std::shared_ptr<Inbox> served = std::make_shared<Inbox>(/*echo=*/true);
  std::shared_ptr<Inbox> received = std::make_shared<Inbox>();
  std::unique_ptr<Transport> server;
  std::unique_ptr<Transport> dialler;
  std::unique_ptr<Listener> listener;
  std::shared_ptr<Stream> stream;
};

TEST(AuthenticatedGrpcTransport, RecordsThatAreSentAtOnceArriveInOrderAfterTheKeyIsProven) {
  Pair pair(KeyOf('a'), KeyOf('a'));
  pair.stream->Send({Numbered(1)});
  pair.stream->Send({Numbered(2), Numbered(3, 100 << 10)});
  EXPECT_THAT(pair.received->AwaitSteps(3), ElementsAre(1, 2, 3));
  pair.stream->Send({Numbered(4)});
  EXPECT_THAT(pair.received->AwaitSteps(4), ElementsAre(1, 2, 3, 4));
  pair.stream->Close(absl::OkStatus());
  EXPECT_TRUE(pair.received->AwaitClosed().ok());
}

TEST(AuthenticatedGrpcTransport, ACloseBeforeTheKeyIsProvenStillSendsWhatIsQueued) {
  Pair pair(KeyOf('a'), KeyOf('a'));
  pair.stream->Send({Numbered(7)});
  pair.stream->Close(absl::OkStatus());
  EXPECT_THAT(pair.served->AwaitSteps(1), ElementsAre(7));
  EXPECT_TRUE(pair.received->AwaitClosed().ok());
}

TEST(AuthenticatedGrpcTransport, AKeyThatChangesOnBothSidesIsThatOfTheNextStream) {
  std::atomic<char> digit = 'a';
  std::unique_ptr<Transport> server = MakeAuthenticatedTransport(MakeGrpcTransport(), [&] { return KeyOf(digit); });
  const auto served = std::make_shared<Inbox>();
  const std::unique_ptr<Listener> listener = server->Listen("127.0.0.1:0", served).value();
  digit = 'b';
  std::unique_ptr<Transport> dialler = Pair::Make(KeyOf('b'));
  const auto received = std::make_shared<Inbox>();
  const std::shared_ptr<Stream> stream = dialler->Dial(listener->address(), received, kSoon);
  stream->Send({Numbered(5)});
  EXPECT_THAT(served->AwaitSteps(1), ElementsAre(5));
  stream->Close(absl::OkStatus());
  EXPECT_TRUE(received->AwaitClosed().ok());
}

TEST(AuthenticatedGrpcTransport, ADiallerOfAnotherJobReachesNoHandlerAndDialsAgain) {
  Pair pair(KeyOf('a'), KeyOf('b'));
  pair.stream->Send({Numbered(1)});
  const absl::Status status = pair.received->AwaitClosed();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("another job's key"));
  EXPECT_THAT(pair.served->steps(), ElementsAre());
}

TEST(AuthenticatedGrpcTransport, ADiallerWithoutAKeyIsToldSo) {
  Pair pair(KeyOf('a'), std::nullopt);
  pair.stream->Send({Numbered(1)});
  const absl::Status status = pair.received->AwaitClosed();
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("found 'hello', expected 'challenge'"));
  EXPECT_EQ(pair.served->AwaitClosed(), status) << "the listener's side knows whom it has refused, and why";
  EXPECT_THAT(pair.served->steps(), ElementsAre());
}

TEST(AuthenticatedGrpcTransport, AListenerWithoutAKeyGetsNothingButTheChallenge) {
  Pair pair(std::nullopt, KeyOf('a'));
  pair.stream->Send({Numbered(5)});
  const absl::Status status = pair.received->AwaitClosed();  // the challenge came back as an echo, which is no proof
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(pair.served->steps(), ElementsAre(0));
}

TEST(AuthenticatedTransport, HoldsInOneProcessToo) {
  std::unique_ptr<Transport> transport = MakeAuthenticatedTransport(MakeInprocTransport(), [] { return KeyOf('c'); });
  const auto served = std::make_shared<Inbox>(/*echo=*/true);
  const auto received = std::make_shared<Inbox>();
  const std::unique_ptr<Listener> listener = transport->Listen("here:1", served).value();
  const std::shared_ptr<Stream> stream = transport->Dial(listener->address(), received, kSoon);
  stream->Send({Numbered(1)});
  EXPECT_THAT(received->AwaitSteps(1), ElementsAre(1));
}

TEST(MutualChallenge, AProofOfOneStreamIsNoneForAnother) {
  const JobKey key = KeyOf('a');
  const DiallerChallenge dialler(key, MakeNonce().value());
  ListenerChallenge first(key, MakeNonce().value());
  ListenerChallenge second(key, MakeNonce().value());
  const Record proof = dialler.Answer(first.Answer(dialler.Challenge()).value()).value();
  EXPECT_TRUE(first.Check(proof).ok());
  ASSERT_TRUE(second.Answer(dialler.Challenge()).ok());
  EXPECT_TRUE(absl::IsUnauthenticated(second.Check(proof)));
}

TEST(MutualChallenge, AListenersOwnProofSentBackIsNotTheDiallers) {
  const JobKey key = KeyOf('a');
  ListenerChallenge listener(key, MakeNonce().value());
  const Record proof = listener.Answer(DiallerChallenge(key, MakeNonce().value()).Challenge()).value();
  Record reflected = proof;
  reflected.payload = Payload::OfText(proof.payload.ToString().substr(kNonceBytes));
  reflected.header.length = kProofBytes;
  EXPECT_TRUE(absl::IsUnauthenticated(listener.Check(reflected)));
}

TEST(JobKey, ReadsWhatItWritesAndNeverRepeatsTheTextInAnError) {
  const JobKey key = JobKey::Random().value();
  EXPECT_EQ(JobKey::Parse(key.ToText(), "key")->ToText(), key.ToText());
  EXPECT_NE(key.ToText(), JobKey::Random()->ToText());
  for (const std::string& text : {std::string(), std::string("secret"), std::string(64, 'g'), std::string(65, 'a')}) {
    const absl::StatusOr<JobKey> bad = JobKey::Parse(text, "/etc/trainyard/key");
    ASSERT_FALSE(bad.ok());
    EXPECT_THAT(std::string(bad.status().message()), HasSubstr("job key '/etc/trainyard/key': found"));
    if (!text.empty()) {
      EXPECT_THAT(std::string(bad.status().message()), testing::Not(HasSubstr(text)));
    }
  }
}

}  // namespace
}  // namespace trainyard::engine
