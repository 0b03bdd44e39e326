// Streams of strangers: each is refused by itself, and the group goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/base/notification.h"
#include "trainer/collectives/join_request.h"
#include "trainer/collectives/test_ranks.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

// Says one thing and keeps what it is told.
class Stranger final : public StreamHandler {
 public:
  void OnMessage(const std::shared_ptr<Stream>& /*stream*/, std::span<Record> /*records*/) override {}
  void OnClosed(const std::shared_ptr<Stream>& /*stream*/, const absl::Status& status) override {
    status_ = status;
    closed_.Notify();
  }
  std::string AwaitRefusal() {
    EXPECT_TRUE(closed_.WaitForNotificationWithTimeout(absl::Seconds(20)));
    return std::string(status_.message());
  }

 private:
  absl::Status status_;
  Notification closed_;
};

Record RecordOf(WireOp op, uint32_t sender, const std::string& text = "") {
  Record record;
  record.header.op = op;
  record.header.sender = sender;
  record.header.fingerprint = 42;
  record.payload = Payload::OfText(text);
  record.header.length = static_cast<uint32_t>(text.size());
  return record;
}

std::string GoodJoin() { return ToJson({.agreement = {{"the seed", "1"}}}); }

TEST_P(RanksTest, StrangersAreRefusedAndTheGroupGoesOn) {
  MakeRanks(2);
  FormAll();
  struct Case {
    std::vector<Record> says;
    std::string expected;
  };
  Record of_group = RecordOf(WireOp::kJoin, 1, GoodJoin());
  of_group.header.epoch = 7;
  Record other_model = RecordOf(WireOp::kJoin, 1, GoodJoin());
  other_model.header.fingerprint = 1;
  const Case cases[] = {
      {{RecordOf(WireOp::kSum, 1)}, "found 'sum' as the first record, expected 'join'"},
      {{RecordOf(WireOp::kJoin, 0, GoodJoin())}, "rank 0 joins at rank 0 of 2, which it has nothing to exchange with"},
      {{RecordOf(WireOp::kJoin, 9, GoodJoin())}, "rank 9 joins at rank 0 of 2"},
      {{RecordOf(WireOp::kJoin, 0xffffffff, GoodJoin())}, "joins at rank 0 of 2"},
      {{RecordOf(WireOp::kJoin, 1, "{")}, "not a JSON object"},
      {{RecordOf(WireOp::kJoin, 1, R"({"agreement": [1]})")}, "'agreement' is missing or not a list of pairs"},
      {{RecordOf(WireOp::kJoin, 1, R"({"agreement": [["the seed", "1"]], "furthest": "x"})")}, "'furthest' is missing or not an integer"},
      {{of_group}, "rank 0 alone makes groups"},
      {{other_model}, "the model differs"},
  };
  for (const Case& test : cases) {
    auto stranger = std::make_shared<Stranger>();
    const std::shared_ptr<Stream> stream = transport_->Dial(hosts_[0], stranger, absl::Seconds(5));
    stream->Send(test.says);
    EXPECT_THAT(stranger->AwaitRefusal(), HasSubstr(test.expected));
  }
  OnAll([](TestRank& rank, int) {
    rank.Plan(AllReduceAlgorithm::kAuto, 100);
    const absl::Status reduced = rank.Reduce(0);
    EXPECT_TRUE(reduced.ok()) << reduced;
  });
}

// A rank 0 that answers each join with a 'form' that cannot be.
class OddChief final : public StreamHandler {
 public:
  OddChief(uint16_t per_node, uint32_t flags, uint32_t root) : per_node_(per_node), flags_(flags), root_(root) {}
  void OnMessage(const std::shared_ptr<Stream>& stream, std::span<Record> records) override {
    if (records[0].header.op != WireOp::kJoin) return;
    Record form = RecordOf(WireOp::kForm, 0);
    form.header.epoch = 5;
    form.header.slot = per_node_;
    form.header.key = root_;
    form.header.flags = flags_;
    stream->Send({form});
  }
  void OnClosed(const std::shared_ptr<Stream>& /*stream*/, const absl::Status& /*status*/) override {}

 private:
  const uint16_t per_node_;
  const uint32_t flags_;
  const uint32_t root_;
};

TEST_P(RanksTest, AGroupWhoseNodesDevicesOrRootCannotBeIsRefused) {
  for (const auto& [per_node, flags, root, refused] :
       {std::tuple<uint16_t, uint32_t, uint32_t, std::string>(3, 0, 0,
                                                              "'form' of 3 ranks per node, expected a power of two that divides 4 ranks"),
        {1, kWireFlagOneKind, 0, "'form' of ranks with one kind of device, expected none, since this rank has no device"},
        {1, 0, 4, "'form' with the state of rank 4, expected one of 4 ranks"},
        {1, 0, 1, "'form' with this rank's state of step 0, expected step -1 (-1: it has none)"}}) {
    hosts_ = Addresses(GetParam().name, 4);
    const std::unique_ptr<Listener> listener = *transport_->Listen(hosts_[0], std::make_shared<OddChief>(per_node, flags, root));
    RankGroupOptions options = Options(1);
    options.timeouts.connect = absl::Seconds(1);
    TestRank rank(std::move(options), *transport_);
    const absl::Status formed = rank.Form();
    EXPECT_TRUE(absl::IsDeadlineExceeded(formed)) << formed;
    EXPECT_THAT(std::string(formed.message()), HasSubstr(refused));
  }
}

TEST_P(RanksTest, ARankThatHasJoinedSendsNothingBeforeTheGroupHasFormed) {
  hosts_ = Addresses(GetParam().name, 3);
  ranks_.push_back(std::make_unique<TestRank>(Options(0), *transport_));
  for (const WireOp op :
       {WireOp::kSum, WireOp::kResult, WireOp::kEnd, WireOp::kForm, WireOp::kPush, WireOp::kRelease, WireOp::kPace, WireOp::kAsk}) {
    auto stranger = std::make_shared<Stranger>();
    const std::shared_ptr<Stream> stream = transport_->Dial(hosts_[0], stranger, absl::Seconds(5));
    stream->Send({RecordOf(WireOp::kJoin, 1, GoodJoin()), RecordOf(op, 1)});
    EXPECT_THAT(stranger->AwaitRefusal(), HasSubstr("expected a heartbeat before the group has formed"));
  }
}

}  // namespace
}  // namespace trainyard::engine
