#include "trainer/tfrecord/tfrecord.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(std::string_view bytes, uint64_t max_bytes = 1000) {
  const std::string_view before = bytes;
  auto record = TakeTfRecord(bytes, max_bytes);
  EXPECT_FALSE(record.ok());
  EXPECT_EQ(bytes.data(), before.data());
  EXPECT_EQ(bytes.size(), before.size());
  return std::string(record.status().message());
}

// RFC 3720, appendix B.4, and the polynomial's usual check value.
TEST(TfRecord, ChecksumIsCastagnolis) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aa);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43);
  EXPECT_EQ(Crc32c(""), 0);
}

TEST(TfRecord, RecordsComeBackInOrder) {
  std::string file;
  AppendTfRecord("one", file);
  AppendTfRecord("", file);
  AppendTfRecord(std::string(1000, 'x'), file);
  EXPECT_EQ(file.size(), 3 + 1000 + 3 * kTfRecordOverhead);
  std::string_view rest = file;
  EXPECT_EQ(*TakeTfRecord(rest), "one");
  EXPECT_EQ(*TakeTfRecord(rest), "");
  EXPECT_EQ(*TakeTfRecord(rest), std::string(1000, 'x'));
  EXPECT_TRUE(rest.empty());
}

TEST(TfRecord, ADamagedRecordIsNamedByWhatIsWrong) {
  std::string file;
  AppendTfRecord("payload", file);
  EXPECT_THAT(ErrorOf(file.substr(0, 11)), HasSubstr("cut off inside its length"));
  EXPECT_THAT(ErrorOf(file.substr(0, 15)), HasSubstr("record of 7 bytes is cut off (3 bytes are left)"));
  EXPECT_THAT(ErrorOf(file.substr(0, file.size() - 1)), HasSubstr("is cut off"));
  EXPECT_THAT(ErrorOf(file, 6), HasSubstr("said to have 7 bytes, at most 6"));
  std::string wrong_length = file;
  wrong_length[0] ^= 1;
  EXPECT_THAT(ErrorOf(wrong_length), HasSubstr("length does not match its checksum"));
  std::string wrong_data = file;
  wrong_data[12] ^= 1;
  EXPECT_THAT(ErrorOf(wrong_data), HasSubstr("record of 7 bytes does not match its checksum"));
}

}  // namespace
}  // namespace trainyard::engine
