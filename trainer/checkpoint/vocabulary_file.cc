#include "trainer/checkpoint/vocabulary_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

std::string VocabularyPathIn(const std::string& dir) { return dir + "/vocabulary.json"; }

absl::Status Differs(const std::string& dir, const Vocabulary& there, const Vocabulary& here) {
  int32_t id = 0;
  while (id < std::min(there.size(), here.size()) && there.token(id) == here.token(id)) ++id;
  const auto token = [id](const Vocabulary& vocabulary) { return id < vocabulary.size() ? Quoted(vocabulary.token(id)) : "nothing"; };
  return absl::FailedPreconditionError(fmt::format(
      "the checkpoints in {} were trained with another vocabulary: {} has {} tokens and id {} is {}, this job's text gives {} and {}. Use "
      "another output folder, or the text and `vocabulary` of those checkpoints{}",
      dir, VocabularyPathIn(dir), there.size(), id, token(there), here.size(), token(here),
      there.unknown() ? "" : fmt::format(" (theirs has no {}: an older version made them, and they cannot be trained further)", kUnknown)));
}

}  // namespace

absl::Status KeepVocabulary(const std::string& dir, const Vocabulary& vocabulary, bool has_checkpoints) {
  if (!has_checkpoints) {
    TY_RETURN_IF_ERROR(MakeDirectories(dir));
    return ReplaceFile(VocabularyPathIn(dir), vocabulary.ToJson());
  }
  TY_ASSIGN_OR_RETURN(const Vocabulary there, ReadVocabulary(VocabularyPathIn(dir)));
  return there.ToJson() == vocabulary.ToJson() ? absl::OkStatus() : Differs(dir, there, vocabulary);
}

absl::StatusOr<std::string> FindVocabulary(std::span<const std::string> dirs) {
  for (const std::string& dir : dirs) {
    std::error_code ignored;  // a file that cannot be looked at is as good as none
    if (std::filesystem::exists(VocabularyPathIn(dir), ignored)) return VocabularyPathIn(dir);
  }
  return absl::NotFoundError(fmt::format("no vocabulary.json in {}", fmt::join(dirs, " or in ")));
}

absl::StatusOr<Vocabulary> ReadVocabulary(const std::string& path) {
  TY_ASSIGN_OR_RETURN(const std::string json, ReadFile(path));
  return Vocabulary::Parse(json, path);
}

}  // namespace trainyard::engine
