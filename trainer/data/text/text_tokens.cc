#include "trainer/data/text/text_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/data/utf8.h"

namespace trainyard::engine {
namespace {

constexpr size_t kQuotedBytes = 40;

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }

// Of a text of one line, the byte tells the place.
std::string PlaceOf(std::string_view text, size_t byte) {
  if (text.find('\n') == std::string_view::npos) return fmt::format("byte {}", byte);
  return fmt::format("byte {} (line {})", byte, 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(byte), '\n'));
}

}  // namespace

std::string Quoted(std::string_view token) {
  std::string quoted = "\"";
  for (size_t i = 0; i < token.size();) {
    if (i >= kQuotedBytes) {
      quoted += "…";
      break;
    }
    const size_t bytes = std::max<size_t>(1, CodePointBytes(token.substr(i)));
    const char c = token[i];
    if (c == '\n') {
      quoted += "\\n";
    } else if (bytes == 1 && (static_cast<uint8_t>(c) < 0x20 || static_cast<uint8_t>(c) >= 0x7f)) {
      quoted += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
    } else {
      quoted += token.substr(i, bytes);
    }
    i += bytes;
  }
  return quoted + "\"";
}

void TokenStream::Add(std::string_view token) {
  auto found = ids_.find(token);
  if (found == ids_.end()) {
    const auto number = static_cast<int32_t>(tokens_.size());
    found = ids_.emplace(tokens_.emplace_back(token), number).first;
  }
  numbers_.push_back(found->second);
}

absl::Status TokenStream::Append(std::string_view text, const std::string& name) {
  if (text.empty()) return absl::DataLossError(fmt::format("{} is empty, expected text", name));
  const std::string_view whole = text;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const auto place = [&](std::string_view rest) { return PlaceOf(whole, whole.size() - rest.size()); };
  size_t word = 0;  // bytes of the word that ends before `rest`
  std::string_view rest = text;
  const auto end_word = [&] {
    if (word > 0) Add(std::string_view(rest.data() - word, word));
    word = 0;
  };
  while (!rest.empty()) {
    const size_t bytes = CodePointBytes(rest);
    if (bytes == 0) {
      return absl::DataLossError(fmt::format("{} is not UTF-8: found the byte 0x{:02x} at {}; convert it, or name a text file", name,
                                             static_cast<uint8_t>(rest[0]), place(rest)));
    }
    if (kind_ == TokenKind::kCharacters) {
      Add(rest.substr(0, bytes));
    } else if (rest[0] == '\n') {
      end_word();
      Add(kEndOfLine);
    } else if (IsBlank(rest[0])) {
      end_word();
    } else if (word + bytes > kMaxWordBytes) {
      return absl::InvalidArgumentError(fmt::format("{}: the word at {} has more than {} bytes; is this text with words between blanks?",
                                                    name, place(rest), kMaxWordBytes));
    } else {
      word += bytes;
    }
    if (numbers_.size() > kMaxTokens) {
      return absl::InvalidArgumentError(fmt::format("{}: more than {} tokens in all, at {}", name, kMaxTokens, place(rest)));
    }
    rest.remove_prefix(bytes);
  }
  end_word();
  return absl::OkStatus();
}

}  // namespace trainyard::engine
