// The tokens that a language model knows, by their ids.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/text/text_tokens.h"

namespace trainyard::engine {

// Ids are ranks: the most frequent token is 0, of equally frequent ones the first by its bytes (as
// in TensorFlow's PTB tutorial). Const after construction; not copyable, because its map points
// into it.
class Vocabulary {
 public:
  // The most frequent tokens of stream.numbers()[begin, end), and kUnknown in the last place unless
  // it is one of those itself: `limit` in all, at most. So every text has ids, whatever is in it.
  // limit >= 1.
  Vocabulary(const TokenStream& stream, size_t begin, size_t end, int64_t limit);
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  TokenKind kind() const { return kind_; }
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  const std::string& token(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  // Nothing for a token that is not in it.
  std::optional<int32_t> Find(std::string_view token) const;
  // The id of kUnknown, where there is one.
  std::optional<int32_t> unknown() const { return Find(kUnknown); }
  // The same, with kUnknown's id for other tokens; nothing where there is none.
  std::optional<int32_t> IdOf(std::string_view token) const;
  // The text whose tokens these are: words with blanks between them and line ends for kEndOfLine,
  // or the characters.
  std::string TextOf(std::span<const int32_t> ids) const;

  // One JSON object: {"format": "trainyard-vocabulary", "version": 1, "tokens": "words", "list":
  // […]}.
  std::string ToJson() const;
  // `name` is what errors call the text. DataLoss: it is not a vocabulary, or holds a token twice.
  static absl::StatusOr<Vocabulary> Parse(std::string_view json, const std::string& name);
  // SHA-256 of ToJson(): equal ids for equal tokens.
  std::string Sha256Hex() const;
  // "10000 words (SHA-256 6e340b9cffb37a98)", with the first digits of Sha256Hex: tells it from
  // others where a person reads it.
  std::string Summary() const;

 private:
  Vocabulary(TokenKind kind, std::vector<std::string> tokens);

  TokenKind kind_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, int32_t> ids_;
};

}  // namespace trainyard::engine
