#include "trainer/data/text/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/parse_json.h"
#include "trainer/base/sha256.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "trainyard-vocabulary";
constexpr int kVersion = 1;

// The numbers of the stream's tokens in the order of their ids.
std::vector<int32_t> RankedNumbers(const TokenStream& stream, size_t begin, size_t end) {
  std::vector<int64_t> counts(stream.tokens().size());
  for (size_t i = begin; i < end; ++i) ++counts[stream.numbers()[i]];
  std::vector<int32_t> ranked(counts.size());
  std::iota(ranked.begin(), ranked.end(), 0);
  std::erase_if(ranked, [&](int32_t number) { return counts[number] == 0; });
  std::ranges::sort(ranked, [&](int32_t a, int32_t b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : stream.tokens()[a] < stream.tokens()[b];
  });
  return ranked;
}

std::vector<std::string> RankedTokens(const TokenStream& stream, size_t begin, size_t end, int64_t limit) {
  TY_CHECK(limit >= 1 && begin <= end && end <= stream.numbers().size());
  std::vector<int32_t> ranked = RankedNumbers(stream, begin, end);
  if (ranked.size() > static_cast<size_t>(limit)) ranked.resize(static_cast<size_t>(limit));
  std::vector<std::string> tokens;
  tokens.reserve(ranked.size() + 1);
  for (const int32_t number : ranked) tokens.push_back(stream.tokens()[number]);
  if (std::ranges::find(tokens, kUnknown) != tokens.end()) return tokens;
  if (tokens.size() == static_cast<size_t>(limit)) tokens.pop_back();
  tokens.emplace_back(kUnknown);
  return tokens;
}

std::string_view KindName(TokenKind kind) { return kind == TokenKind::kWords ? "words" : "characters"; }

}  // namespace

Vocabulary::Vocabulary(const TokenStream& stream, size_t begin, size_t end, int64_t limit)
    : Vocabulary(stream.kind(), RankedTokens(stream, begin, end, limit)) {}

Vocabulary::Vocabulary(TokenKind kind, std::vector<std::string> tokens) : kind_(kind), tokens_(std::move(tokens)) {
  ids_.reserve(tokens_.size());
  for (size_t id = 0; id < tokens_.size(); ++id) ids_.emplace(tokens_[id], static_cast<int32_t>(id));
}

std::optional<int32_t> Vocabulary::Find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int32_t> Vocabulary::IdOf(std::string_view token) const {
  const std::optional<int32_t> id = Find(token);
  return id ? id : unknown();
}

std::string Vocabulary::TextOf(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    const std::string& word = token(id);
    if (kind_ == TokenKind::kCharacters) {
      text += word;
    } else if (word == kEndOfLine) {
      text += '\n';
    } else {
      if (!text.empty() && text.back() != '\n') text += ' ';
      text += word;
    }
  }
  return text;
}

std::string Vocabulary::ToJson() const {
  const nlohmann::ordered_json object = {{"format", kFormat}, {"version", kVersion}, {"tokens", KindName(kind_)}, {"list", tokens_}};
  return object.dump(0, ' ', false, json::error_handler_t::replace) + "\n";
}

absl::StatusOr<Vocabulary> Vocabulary::Parse(std::string_view text, const std::string& name) {
  const json object = ParseJson(text);
  const auto wrong = [&](std::string_view what) { return absl::DataLossError(fmt::format("{} is not a vocabulary: {}", name, what)); };
  if (!object.is_object()) return wrong("expected a JSON object");
  if (object.value("format", json()) != kFormat || object.value("version", json()) != kVersion) {
    return wrong(fmt::format("expected the format '{}' of version {}", kFormat, kVersion));
  }
  const json kind = object.value("tokens", json());
  if (kind != "words" && kind != "characters") return wrong("expected `tokens` to be words or characters");
  const json list = object.value("list", json());
  if (!list.is_array() || list.empty() || list.size() > kMaxTokens) return wrong("expected `list` to hold one or more tokens");
  std::vector<std::string> tokens;
  tokens.reserve(list.size());
  for (const json& token : list) {
    if (!token.is_string()) return wrong(fmt::format("token {} is not text", tokens.size()));
    tokens.push_back(token.get<std::string>());
  }
  Vocabulary vocabulary(kind == "words" ? TokenKind::kWords : TokenKind::kCharacters, std::move(tokens));
  if (vocabulary.ids_.size() != vocabulary.tokens_.size()) return wrong("a token is in it twice");
  return vocabulary;
}

std::string Vocabulary::Sha256Hex() const {
  Sha256 sha256;
  sha256.Update(ToJson());
  return sha256.HexDigest();
}

std::string Vocabulary::Summary() const { return fmt::format("{} {} (SHA-256 {:.16})", size(), KindName(kind_), Sha256Hex()); }

}  // namespace trainyard::engine
