#include "trainer/data/formats/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <limits>
#include <vector>

#include "trainer/data/formats/idx_maker.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Gzip(std::string_view bytes) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = bytes.size();
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = packed.size();
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

absl::StatusOr<IdxRecords> Parse(std::string_view bytes, IdxRange range = {}, uint64_t max_bytes = 1 << 20) {
  absl::StatusOr<std::unique_ptr<ByteSource>> source = Unpacked(MemorySource(bytes), "f.idx");
  EXPECT_TRUE(source.ok());
  return ReadIdx(**source, "f.idx", range, max_bytes);
}

std::string TextOf(const IdxRecords& records) { return {records.bytes.as<char>(), records.bytes.size()}; }

std::string IdxErrorOf(std::string_view bytes, IdxRange range = {}) {
  auto records = Parse(bytes, range);
  EXPECT_FALSE(records.ok());
  return records.ok() ? "" : std::string(records.status().message());
}

IdxMaker ThreeOfTwo() { return IdxMaker().Axes({3, 2}).Data("aabbcc"); }

TEST(Idx, ReadsARangeOfPlainAndPackedFiles) {
  const std::string plain = ThreeOfTwo().Make();
  for (const std::string& bytes : {plain, Gzip(plain)}) {
    auto all = Parse(bytes);
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_EQ(TextOf(*all), "aabbcc");
    EXPECT_EQ(all->header.record_shape(), Shape({2}));
    auto middle = Parse(bytes, {1, 2});
    ASSERT_TRUE(middle.ok()) << middle.status();
    EXPECT_EQ(TextOf(*middle), "bb");
    EXPECT_EQ(TextOf(*Parse(bytes, {2, -1})), "cc");
  }
}

TEST(Idx, ElementsOfEveryTypeAreDecoded) {
  const auto decode = [](IdxType type, std::string_view bytes) {
    std::vector<float> values(bytes.size() / IdxElementBytes(type));
    DecodeIdxAsF32(type, reinterpret_cast<const std::byte*>(bytes.data()), values);
    return values;
  };
  using std::string_literals::operator""s;
  EXPECT_THAT(decode(IdxType::kU8, "\xff\x01"), ElementsAre(255, 1));
  EXPECT_THAT(decode(IdxType::kI8, "\xff\x01"), ElementsAre(-1, 1));
  EXPECT_THAT(decode(IdxType::kI16, "\xff\xfe\x01\x00"s), ElementsAre(-2, 256));
  EXPECT_THAT(decode(IdxType::kI32, "\xff\xff\xff\xfd\x00\x01\x00\x00"s), ElementsAre(-3, 65536));
  EXPECT_THAT(decode(IdxType::kF32, "\x3f\xc0\x00\x00"s), ElementsAre(1.5F));
  EXPECT_THAT(decode(IdxType::kF64, "\xbf\xe0\x00\x00\x00\x00\x00\x00"s), ElementsAre(-0.5F));
  std::vector<int32_t> labels(2);
  DecodeIdxAsI32(IdxType::kI16, reinterpret_cast<const std::byte*>("\xff\xfe\x01\x00"), labels);
  EXPECT_THAT(labels, ElementsAre(-2, 256));
}

TEST(Idx, AWrongMagicIsShown) {
  EXPECT_THAT(IdxErrorOf("PNG!...."), HasSubstr("f.idx is not an IDX file: it starts with 50 4e 47 21, expected 00 00"));
  EXPECT_THAT(IdxErrorOf(std::string("\0\0\x0a\x01\0\0\0\0", 8)), HasSubstr("00 00 0a 01"));
  EXPECT_THAT(IdxErrorOf(std::string("\0\0\x08\x00", 4)), HasSubstr("has 0 axes"));
  EXPECT_THAT(IdxErrorOf(std::string("\0\0\x08\x08", 4)), HasSubstr("has 8 axes"));
}

TEST(Idx, ACutOffFileIsNamedWithWhatItPromised) {
  const std::string whole = ThreeOfTwo().Make();
  EXPECT_EQ(IdxErrorOf(whole.substr(0, whole.size() - 1)),
            "f.idx is cut off: its header promises 3 records of 2 bytes (6 bytes), but only 5 bytes follow it");
  EXPECT_THAT(IdxErrorOf(whole.substr(0, 7)), HasSubstr("cut off inside its IDX header of 2 axes"));
  EXPECT_THAT(IdxErrorOf(whole.substr(0, 3)), HasSubstr("has 3 bytes, too few"));
  EXPECT_THAT(IdxErrorOf(""), HasSubstr("has 0 bytes, too few"));
}

TEST(Idx, AFileCutOffAfterTheRangeIsStillRefused) {
  const std::string whole = ThreeOfTwo().Make();
  EXPECT_THAT(IdxErrorOf(whole.substr(0, whole.size() - 1), {0, 1}), HasSubstr("is cut off"));
  EXPECT_THAT(IdxErrorOf(Gzip(whole.substr(0, whole.size() - 1)), {0, 1}), HasSubstr("only 5 bytes follow"));
}

TEST(Idx, BytesAfterTheLastRecordAreRefused) {
  EXPECT_THAT(IdxErrorOf(ThreeOfTwo().Data("aabbccd").Make()), HasSubstr("goes on after its 3 records of 2 bytes"));
  EXPECT_THAT(IdxErrorOf(Gzip(ThreeOfTwo().Data("aabbccd").Make())), HasSubstr("goes on after its 3 records of 2 bytes"));
}

TEST(Idx, ADamagedPackedFileIsDataLoss) {
  std::string packed = Gzip(ThreeOfTwo().Make());
  EXPECT_THAT(IdxErrorOf(packed.substr(0, packed.size() - 4)), HasSubstr("f.idx is cut off: its gzip stream does not end"));
  std::string wrong_checksum = packed;
  wrong_checksum[packed.size() - 6] ^= 1;
  EXPECT_THAT(IdxErrorOf(wrong_checksum), HasSubstr("f.idx is damaged: incorrect data check"));
  EXPECT_THAT(IdxErrorOf(packed + "x" + std::string(20, 'y')), HasSubstr("f.idx is damaged"));
}

TEST(Idx, TwoGzipMembersAreOneFile) {
  const std::string whole = ThreeOfTwo().Make();
  auto records = Parse(Gzip(whole.substr(0, 13)) + Gzip(whole.substr(13)));
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(TextOf(*records), "aabbcc");
}

TEST(Idx, ARangeOutsideTheFileIsRefused) {
  EXPECT_EQ(IdxErrorOf(ThreeOfTwo().Make(), {1, 4}), "range [1, 4) is not inside f.idx, which has 3 records");
  EXPECT_THAT(IdxErrorOf(ThreeOfTwo().Make(), {-1, 2}), StartsWith("range [-1, 2) is not inside"));
  EXPECT_THAT(IdxErrorOf(ThreeOfTwo().Make(), {2, 1}), StartsWith("range [2, 1) is not inside"));
}

TEST(Idx, AHeaderThatPromisesMoreThanTheFileCanHoldAllocatesNothing) {
  constexpr uint32_t kHuge = std::numeric_limits<uint32_t>::max();
  EXPECT_THAT(IdxErrorOf(IdxMaker().Axes({kHuge}).Data("x").Make()), HasSubstr("only 1 bytes follow"));
  EXPECT_THAT(IdxErrorOf(Gzip(IdxMaker().Axes({kHuge}).Data("x").Make())), HasSubstr("is cut off"));
  EXPECT_THAT(IdxErrorOf(IdxMaker().Axes({kHuge, kHuge, kHuge}).Data("x").Make()), HasSubstr("make more than"));
}

TEST(Idx, AGzipBombIsRefusedByTheMemoryLimit) {
  const std::string zeros(3 << 20, '\0');
  const std::string bomb = Gzip(IdxMaker().Axes({3U << 20}).Data(zeros).Make());
  ASSERT_LT(bomb.size(), 10000);
  auto records = Parse(bomb);
  EXPECT_EQ(records.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(records.status().message()),
              HasSubstr("needs 3145728 bytes of memory for records [0, 3145728), at most 1048576"));
  EXPECT_TRUE(Parse(bomb, {0, 100}).ok());
}

}  // namespace
}  // namespace trainyard::engine
