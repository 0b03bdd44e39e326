#include "trainer/data/text/text_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Tokens(const std::string& text, TokenKind kind) {
  TokenStream stream(kind);
  const absl::Status status = stream.Append(text, "a.txt");
  EXPECT_TRUE(status.ok()) << status;
  std::vector<std::string> tokens;
  for (const int32_t number : stream.numbers()) tokens.push_back(stream.tokens()[number]);
  return tokens;
}

absl::Status ErrorOfText(const std::string& text, TokenKind kind = TokenKind::kWords) { return TokenStream(kind).Append(text, "a.txt"); }

TEST(TextTokens, WordsStandBetweenBlanksAndALineEndIsAWord) {
  EXPECT_THAT(Tokens(" the cat  sat\tdown \n the end\n", TokenKind::kWords),
              ElementsAre("the", "cat", "sat", "down", "<eos>", "the", "end", "<eos>"));
  EXPECT_THAT(Tokens("dos\r\nfile", TokenKind::kWords), ElementsAre("dos", "<eos>", "file"));
  EXPECT_THAT(Tokens("\xef\xbb\xbfnaïve 猫", TokenKind::kWords), ElementsAre("naïve", "猫")) << "a byte order mark is no part of a word";
}

TEST(TextTokens, CharactersAreCodePointsLineEndsIncluded) {
  EXPECT_THAT(Tokens("a é\n猫😀", TokenKind::kCharacters), ElementsAre("a", " ", "é", "\n", "猫", "😀"));
}

TEST(TextTokens, TextsFollowEachOther) {
  TokenStream stream(TokenKind::kWords);
  ASSERT_TRUE(stream.Append("a b", "1").ok());
  ASSERT_TRUE(stream.Append("b c", "2").ok());
  EXPECT_THAT(stream.numbers(), ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(stream.tokens(), ElementsAre("a", "b", "c"));
}

TEST(TextTokens, BytesThatAreNoTextAreErrorsWithByteAndLine) {
  EXPECT_EQ(ErrorOfText("").message(), "a.txt is empty, expected text");
  const absl::Status status = ErrorOfText("one\ntwo \xff three");
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_EQ(status.message(), "a.txt is not UTF-8: found the byte 0xff at byte 8 (line 2); convert it, or name a text file");
  for (const char* bytes :
       {"\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf0\x80\x80\xaf", "\xc3", "\xe7\x8c", "\x80"}) {
    EXPECT_THAT(std::string(ErrorOfText(bytes, TokenKind::kCharacters).message()), HasSubstr("at byte 0;"))
        << testing::PrintToString(bytes);
  }
}

TEST(TextTokens, ALineMayBeLongAWordMayNot) {
  std::string line;
  for (int i = 0; i < 100'000; ++i) line += "word ";
  EXPECT_EQ(Tokens(line, TokenKind::kWords).size(), 100'000U);
  EXPECT_TRUE(ErrorOfText(std::string(kMaxWordBytes, 'x')).ok());
  const absl::Status status = ErrorOfText("short\n" + std::string(kMaxWordBytes + 1, 'x'));
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("the word at byte 4102 (line 2) has more than 4096 bytes"));
}

TEST(TextTokens, MessagesQuoteTokensShortAndOnOneLine) {
  EXPECT_EQ(Quoted("cat"), "\"cat\"");
  EXPECT_EQ(Quoted("\n"), "\"\\n\"");
  EXPECT_EQ(Quoted("\x01\xff"), "\"\\x01\\xff\"");
  EXPECT_EQ(Quoted(std::string(100, 'x')), "\"" + std::string(40, 'x') + "…\"");
}

}  // namespace
}  // namespace trainyard::engine
