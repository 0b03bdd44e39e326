// Text cut into tokens, as Penn Treebank's files are read (Mikolov 2012; the PTB tutorial of
// TensorFlow). Tokens are words between blanks, with every line's end a word of its own, or single
// characters.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "trainer/data/data_config.h"

namespace trainyard::engine {

inline constexpr std::string_view kEndOfLine = "<eos>";  // what a line's end is as a word
inline constexpr std::string_view kUnknown = "<unk>";    // what stands for every token that a vocabulary has no place for
inline constexpr size_t kMaxWordBytes = 4096;
inline constexpr size_t kMaxTokens = size_t{1} << 30;

// A token as messages quote it: shortened, line ends and other control bytes written as \n or \x01.
std::string Quoted(std::string_view token);

// The tokens of one text after the other, each by a number: the n-th different token, in the order
// of appearance, is n. Movable; views into it stay valid.
class TokenStream {
 public:
  explicit TokenStream(TokenKind kind) : kind_(kind) {}

  // Appends the tokens of `text`, which must be UTF-8 (a byte order mark at its start is dropped).
  // kWords: what stands between blanks (space, tab, carriage return, form feed, vertical tab), and
  // kEndOfLine for each newline. kCharacters: each code point, newlines too. Errors call the text
  // `name`. DataLoss: it is empty or no UTF-8, at a byte, and at a line where there are several.
  // InvalidArgument: a word of more than kMaxWordBytes, or more than kMaxTokens tokens in all.
  absl::Status Append(std::string_view text, const std::string& name);

  TokenKind kind() const { return kind_; }
  const std::vector<int32_t>& numbers() const { return numbers_; }
  // The different tokens by number.
  const std::deque<std::string>& tokens() const { return tokens_; }

 private:
  void Add(std::string_view token);

  TokenKind kind_;
  std::vector<int32_t> numbers_;
  std::deque<std::string> tokens_;  // a deque: its strings stay where they are
  std::unordered_map<std::string_view, int32_t> ids_;
};

}  // namespace trainyard::engine
