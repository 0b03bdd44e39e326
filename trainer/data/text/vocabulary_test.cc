#include "trainer/data/text/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

Vocabulary Of(const std::string& text, int64_t limit, TokenKind kind = TokenKind::kWords) {
  TokenStream stream(kind);
  EXPECT_TRUE(stream.Append(text, "text").ok());
  return {stream, 0, stream.numbers().size(), limit};
}

std::vector<std::string> TokensOf(const Vocabulary& vocabulary) {
  std::vector<std::string> tokens;
  for (int32_t id = 0; id < vocabulary.size(); ++id) tokens.push_back(vocabulary.token(id));
  return tokens;
}

TEST(Vocabulary, RanksByFrequencyThenByBytes) {
  EXPECT_THAT(TokensOf(Of("b a c b c d\n", 100)), ElementsAre("b", "c", "<eos>", "a", "d", "<unk>"));
}

TEST(Vocabulary, KeepsTheMostFrequentTokensAndOneThatStandsForTheOthers) {
  const Vocabulary vocabulary = Of("a a a b b c d", 3);
  EXPECT_THAT(TokensOf(vocabulary), ElementsAre("a", "b", "<unk>"));
  EXPECT_THAT(vocabulary.IdOf("d"), Optional(2));
  EXPECT_FALSE(vocabulary.Find("d").has_value());
}

TEST(Vocabulary, AnUnknownWordOfTheTextKeepsItsRank) {
  EXPECT_THAT(TokensOf(Of("a a a <unk> <unk> b c", 3)), ElementsAre("a", "<unk>", "b"));
  EXPECT_THAT(TokensOf(Of("<unk> a", 2)), ElementsAre("<unk>", "a"));
}

TEST(Vocabulary, EveryTokenHasAnIdHoweverFewTheVocabularyHolds) {
  EXPECT_THAT(TokensOf(Of("a a b", 3)), ElementsAre("a", "b", "<unk>"));
  EXPECT_THAT(TokensOf(Of("a a b", 2)), ElementsAre("a", "<unk>")) << "the rarest gives way";
  EXPECT_THAT(TokensOf(Of("a a b", 1)), ElementsAre("<unk>"));
  EXPECT_THAT(Of("a b", 4, TokenKind::kCharacters).IdOf("é"), Optional(3)) << "a, b and the blank are known";
}

TEST(Vocabulary, CountsOnlyItsPartOfTheStream) {
  TokenStream stream(TokenKind::kWords);
  ASSERT_TRUE(stream.Append("a b b c c c", "text").ok());
  EXPECT_THAT(TokensOf(Vocabulary(stream, 0, 3, 10)), ElementsAre("b", "a", "<unk>"));
}

TEST(Vocabulary, WritesIdsAsText) {
  const Vocabulary words = Of("b a\n", 10);
  EXPECT_EQ(words.TextOf(std::vector<int32_t>{1, 2, 0, 1, 1}), "a b\na a") << "ids of <eos>, a, b";
  const Vocabulary characters = Of("ab\n", 10, TokenKind::kCharacters);
  EXPECT_EQ(characters.TextOf(std::vector<int32_t>{2, 1, 0, 1}), "ba\na");
}

TEST(Vocabulary, SurvivesAFile) {
  const Vocabulary vocabulary = Of("b \"quoted\" é b\n", 10);
  const absl::StatusOr<Vocabulary> read = Vocabulary::Parse(vocabulary.ToJson(), "vocabulary.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(TokensOf(*read), TokensOf(vocabulary));
  EXPECT_EQ(read->kind(), TokenKind::kWords);
  EXPECT_EQ(read->Sha256Hex(), vocabulary.Sha256Hex());
  EXPECT_NE(Of("b", 10).Sha256Hex(), Of("b", 10, TokenKind::kCharacters).Sha256Hex()) << "the kind of tokens is part of it";
  EXPECT_EQ(vocabulary.Summary(), "5 words (SHA-256 " + vocabulary.Sha256Hex().substr(0, 16) + ")");
}

TEST(Vocabulary, AnythingElseInAFileIsAnErrorThatNamesIt) {
  const auto message = [](const std::string& json) { return std::string(Vocabulary::Parse(json, "v.json").status().message()); };
  constexpr const char* kHead = R"({"format": "trainyard-vocabulary", "version": 1, "tokens": )";
  EXPECT_EQ(message("[1"), "v.json is not a vocabulary: expected a JSON object");
  EXPECT_THAT(message(R"({"format": "other", "version": 1})"), HasSubstr("expected the format 'trainyard-vocabulary' of version 1"));
  EXPECT_THAT(message(std::string(kHead) + R"("letters", "list": ["a"]})"), HasSubstr("expected `tokens` to be words or characters"));
  EXPECT_THAT(message(std::string(kHead) + R"("words", "list": []})"), HasSubstr("one or more tokens"));
  EXPECT_THAT(message(std::string(kHead) + R"("words", "list": ["a", 2]})"), HasSubstr("token 1 is not text"));
  EXPECT_THAT(message(std::string(kHead) + R"("words", "list": ["a", "a"]})"), HasSubstr("a token is in it twice"));
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_THAT(message(std::string(kHead) + R"("words", "list": )" + deep + "}"), HasSubstr("expected a JSON object"));
}

}  // namespace
}  // namespace trainyard::engine
