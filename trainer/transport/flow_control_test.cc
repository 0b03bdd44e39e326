#include "trainer/transport/flow_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace trainyard::engine {
namespace {

constexpr size_t kMegabyte = 1 << 20;

Record Make(WireOp op, uint64_t step, uint32_t length = 0) {
  Record record;
  record.header = {.op = op, .step = step, .length = length};
  record.late = [](WireHeader&) { return Payload(); };  // nobody asks for it here
  return record;
}

std::vector<Record> One(Record record) {
  std::vector<Record> records;
  records.push_back(std::move(record));
  return records;
}

std::vector<uint64_t> Steps(const std::vector<Record>& records) {
  std::vector<uint64_t> steps;
  for (const Record& record : records) steps.push_back(record.header.step);
  return steps;
}

TEST(SendQueueTest, ARecordWithTensorsLeavesWhileThereIsCreditAndTakesItBelowZeroOnce) {
  SendQueue queue;
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(queue.Add(One(Make(WireOp::kPush, i, 16 * kMegabyte)), false).ok());
  EXPECT_THAT(Steps(queue.Take()), testing::ElementsAre(0));
  EXPECT_FALSE(queue.HasNext());
  queue.Grant(15 * kMegabyte + 64);
  EXPECT_FALSE(queue.HasNext()) << "the credit is 0 again";
  queue.Grant(1);
  EXPECT_THAT(Steps(queue.Take()), testing::ElementsAre(1));
  EXPECT_FALSE(queue.HasNext());
}

TEST(SendQueueTest, OnlyHeartbeatsOvertakeAndTheNewestOneStands) {
  SendQueue queue;
  ASSERT_TRUE(queue.Add(One(Make(WireOp::kPush, 0, 2 * kMegabyte)), false).ok());
  (void)queue.Take();
  ASSERT_TRUE(queue.Add(One(Make(WireOp::kPush, 1, 1)), false).ok());
  ASSERT_TRUE(queue.Add(One(Make(WireOp::kLeave, 2)), false).ok());
  EXPECT_FALSE(queue.HasNext());
  ASSERT_TRUE(queue.Add(One(Make(WireOp::kHeartbeat, 3)), false).ok());
  ASSERT_TRUE(queue.Add(One(Make(WireOp::kHeartbeat, 4)), false).ok());
  EXPECT_THAT(Steps(queue.Take()), testing::ElementsAre(4));
  EXPECT_FALSE(queue.HasNext());
  queue.Grant(4 * kMegabyte);
  EXPECT_THAT(Steps(queue.Take()), testing::ElementsAre(1, 2));
  EXPECT_TRUE(queue.empty());
}

TEST(SendQueueTest, AReaderThatLeavesTooMuchUnreadIsAnError) {
  SendQueue queue;
  absl::Status status;
  int records = 0;
  while (status.ok() && records < 100'000) {
    status = queue.Add(One(Make(WireOp::kState, 0, 1000)), false);
    ++records;
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("the other side does not read"));
}

TEST(SendQueueTest, AHugeGrantDoesNotOverflow) {
  SendQueue queue;
  for (int i = 0; i < 3; ++i) queue.Grant(UINT64_MAX);
  ASSERT_TRUE(queue.Add(One(Make(WireOp::kPush, 1, 1)), false).ok());
  EXPECT_TRUE(queue.HasNext());
}

TEST(ReceiveWindowTest, CreditAndWhatIsHeldMakeOneWindow) {
  ReceiveWindow window(4 * kMegabyte);
  EXPECT_FALSE(window.due()) << "nobody has sent anything yet";
  ASSERT_TRUE(window.Received(kMegabyte).ok());
  EXPECT_TRUE(window.starved());
  EXPECT_TRUE(window.due());
  EXPECT_EQ(window.TakeGrant(), 3 * kMegabyte);
  ASSERT_TRUE(window.Received(3 * kMegabyte).ok());
  EXPECT_FALSE(window.due());
  window.Released(kMegabyte - 1);
  EXPECT_FALSE(window.due()) << "not worth a record yet";
  window.Released(1);
  EXPECT_TRUE(window.due());
  EXPECT_EQ(window.TakeGrant(), kMegabyte);
}

TEST(ReceiveWindowTest, RecordsWithoutCreditAreAnError) {
  ReceiveWindow window(kMegabyte);
  ASSERT_TRUE(window.Received(16 * kMegabyte).ok());
  EXPECT_EQ(window.Received(1).code(), absl::StatusCode::kResourceExhausted);
}

TEST(ReceiveWindowTest, ALoanIsPaidBackByWhatIsReleased) {
  ReceiveWindow window(kMegabyte);
  ASSERT_TRUE(window.Received(kMegabyte).ok());
  EXPECT_FALSE(window.due());
  window.Lend();
  EXPECT_EQ(window.TakeGrant(), kMegabyte);
  ASSERT_TRUE(window.Received(kMegabyte).ok());
  window.Released(kMegabyte);
  EXPECT_FALSE(window.due()) << "paid back";
  window.Released(kMegabyte);
  EXPECT_EQ(window.TakeGrant(), kMegabyte);
}

TEST(ReceiveWindowTest, AShorterWindowGrantsNothingUntilEnoughIsReleased) {
  ReceiveWindow window(4 * kMegabyte);
  ASSERT_TRUE(window.Received(kMegabyte).ok());
  (void)window.TakeGrant();
  window.SetWindow(kMegabyte);
  window.Released(kMegabyte);
  EXPECT_FALSE(window.due());
  EXPECT_EQ(window.TakeGrant(), 0U);
}

}  // namespace
}  // namespace trainyard::engine
