#include "trainer/transport/loan_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "trainer/transport/loan_book.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

constexpr size_t kBytes = 256 << 10;

Record RecordOf(WireOp op, std::vector<std::span<const std::byte>> pieces) {
  Record record;
  record.header.op = op;
  record.header.dtype = 0;
  record.payload = Payload(std::move(pieces), nullptr);
  record.header.length = static_cast<uint32_t>(record.payload.size());
  return record;
}

class LoanMessageTest : public ::testing::Test {
 protected:
  // A message with one record that lends `pieces` of a memory of 1000 bytes.
  std::string Why(const WireHeader& header, const LoanHead& head, const std::vector<LoanPiece>& pieces, size_t left_out = 0) {
    std::vector<std::byte> message;
    const auto add = [&](std::span<const std::byte> bytes) { message.insert(message.end(), bytes.begin(), bytes.end()); };
    add(Encode(header));
    add(std::as_bytes(std::span(&head, 1)));
    add(std::as_bytes(std::span(pieces)));
    message.resize(message.size() - left_out);
    const auto borrow = [&](uint32_t number) {
      number_ = number;
      return std::make_shared<const int>(0);
    };
    const absl::StatusOr<std::vector<Record>> records = ParseLoanMessage(message, nullptr, lent_, borrow);
    if (!records.ok()) return std::string(records.status().message());
    EXPECT_EQ(records->size(), 1U);
    found_ = records->at(0).payload;
    return "";
  }

  const std::vector<std::byte> lent_ = std::vector<std::byte>(1000, std::byte{'x'});
  const WireHeader header_ = RecordOf(WireOp::kSum, {std::span(lent_).first(300)}).header;
  uint32_t number_ = 0;
  Payload found_;
};

TEST_F(LoanMessageTest, ALoanIsFoundWhereItsPiecesSay) {
  EXPECT_EQ(Why(header_, {.number = 5, .pieces = 2}, {{.offset = 0, .bytes = 100}, {.offset = 800, .bytes = 200}}), "");
  EXPECT_EQ(number_, 5U);
  EXPECT_EQ(found_.ToString(), std::string(300, 'x'));
  EXPECT_EQ(found_.pieces()[1].data(), lent_.data() + 800);
}

TEST_F(LoanMessageTest, ALoanThatDoesNotFitIsRefused) {
  EXPECT_THAT(Why(header_, {.number = 0, .pieces = 1}, {{.offset = 701, .bytes = 300}}), HasSubstr("300 bytes at 701 are lent of 1000"));
  EXPECT_THAT(Why(header_, {.number = 0, .pieces = 1}, {{.offset = ~uint64_t{0}, .bytes = 300}}), HasSubstr("are lent of 1000"));
  EXPECT_THAT(Why(header_, {.number = 0, .pieces = 1}, {{.offset = 0, .bytes = 299}}),
              HasSubstr("299 bytes are lent, its header says 300"));
  EXPECT_THAT(Why(header_, {.number = kMostLoans, .pieces = 1}, {{.offset = 0, .bytes = 300}}), HasSubstr("a loan below 64"));
  EXPECT_THAT(Why(header_, {.number = 0, .pieces = kMostLoanPieces + 1}, {}), HasSubstr("at most 64 pieces"));
  EXPECT_THAT(Why(header_, {.number = 0, .pieces = 1}, {{.offset = 0, .bytes = 300}}, /*left_out=*/1), HasSubstr("ends early"));
  WireHeader text = header_;
  text.op = WireOp::kHello;
  EXPECT_THAT(Why(text, {.number = 0, .pieces = 1}, {{.offset = 0, .bytes = 300}}), HasSubstr("expected values"));
}

TEST(FindLoanTest, LongValuesInTheMemoryCanBeLentAndNothingElse) {
  const std::shared_ptr<LendableMemory> memory = LendableMemory::Create(kBytes).value();
  const std::shared_ptr<std::byte> taken = memory->Take(kBytes);
  const std::span<const std::byte> all(taken.get(), kBytes);
  const auto pieces = FindLoan(RecordOf(WireOp::kSum, {all.subspan(4096), all.first(8)}), *memory);
  ASSERT_TRUE(pieces.has_value());
  EXPECT_EQ(pieces->at(0).offset, 4096U);
  EXPECT_EQ(pieces->at(1).bytes, 8U);

  const std::vector<std::byte> elsewhere(kBytes);
  EXPECT_FALSE(FindLoan(RecordOf(WireOp::kSum, {all, elsewhere}), *memory).has_value());
  EXPECT_FALSE(FindLoan(RecordOf(WireOp::kSum, {all.first(100)}), *memory).has_value()) << "short";
  EXPECT_FALSE(FindLoan(RecordOf(WireOp::kResult, {all.first(64 << 10)}), *memory).has_value()) << "a short result";
  EXPECT_FALSE(FindLoan(RecordOf(WireOp::kJoin, {all}), *memory).has_value()) << "no values";
  Record rows = RecordOf(WireOp::kPush, {all});
  rows.header.flags = kWireFlagRows;
  EXPECT_FALSE(FindLoan(rows, *memory).has_value()) << "its receiver parses it";
}

TEST(LoanBookTest, ALoanIsKeptUntilItIsGivenBackAndNoOtherIs) {
  LoanState state{};
  LoanBook book(state);
  std::vector<std::weak_ptr<const int>> held;
  for (uint32_t i = 0; i < kMostLoans; ++i) {
    auto owner = std::make_shared<const int>(0);
    held.emplace_back(owner);
    EXPECT_EQ(book.Lend(Payload(std::span<const std::byte>(), std::move(owner))), i);
  }
  EXPECT_FALSE(book.Lend({}).has_value());
  EXPECT_FALSE(book.due());
  state.returned = (uint64_t{1} << 3) | (uint64_t{1} << 63);
  EXPECT_TRUE(book.due());
  book.TakeBack();
  EXPECT_FALSE(book.due());
  EXPECT_EQ(std::ranges::count_if(held, [](const auto& each) { return each.expired(); }), 2);
  EXPECT_TRUE(held[3].expired() && held[63].expired());
  EXPECT_EQ(book.Lend({}), 3U);
  state.returned = ~uint64_t{0};  // also of loans that are not out
  book.TakeBack();
  EXPECT_EQ(std::ranges::count_if(held, [](const auto& each) { return each.expired(); }), std::ssize(held));
}

}  // namespace
}  // namespace trainyard::engine
