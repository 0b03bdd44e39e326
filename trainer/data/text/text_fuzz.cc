// Any bytes: refused with a status, or cut into tokens whose vocabulary survives a file.
#include <algorithm>

#include "trainer/base/check.h"
#include "trainer/data/text/vocabulary.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trainyard::engine;  // NOLINT(google-build-using-namespace): a fuzz target's only function
  if (size < 1) return 0;
  const TokenKind kind = (data[0] & 1) != 0 ? TokenKind::kCharacters : TokenKind::kWords;
  const int64_t limit = 1 + data[0] / 2;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  TY_CHECK(!Quoted(text).empty());
  if (const absl::StatusOr<Vocabulary> parsed = Vocabulary::Parse(text, "fuzz"); parsed.ok()) TY_CHECK(parsed->size() > 0);
  TokenStream stream(kind);
  if (!stream.Append(text, "fuzz").ok()) return 0;
  const auto different = static_cast<int32_t>(stream.tokens().size());
  TY_CHECK(std::ranges::all_of(stream.numbers(), [&](int32_t number) { return number >= 0 && number < different; }));
  const Vocabulary vocabulary(stream, 0, stream.numbers().size(), limit);
  TY_CHECK(vocabulary.size() <= limit);
  TY_CHECK(different <= limit || vocabulary.unknown().has_value());
  if (vocabulary.size() == 0) return 0;
  const absl::StatusOr<Vocabulary> read = Vocabulary::Parse(vocabulary.ToJson(), "fuzz");
  TY_CHECK(read.ok() && read->Sha256Hex() == vocabulary.Sha256Hex());
  return 0;
}
