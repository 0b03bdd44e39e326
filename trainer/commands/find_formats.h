// One function for each format that FindData knows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/commands/found_data.h"

namespace trainyard::engine {

// Names in a folder, sorted; those that begin with a dot do not count.
struct FolderContent {
  std::string dir;  // "": the working directory
  std::vector<std::string> folders;
  std::vector<std::string> files;
  std::string label = {};  // of tables: the column that the user names; "": none
};

// Nothing where the folder is not of that format. `data` begins with the format's line; `dir` is
// left to the caller.
absl::StatusOr<std::optional<FoundData>> FindImages(const FolderContent& content);
absl::StatusOr<std::optional<FoundData>> FindCifar10(const FolderContent& content);
absl::StatusOr<std::optional<FoundData>> FindIdx(const FolderContent& content);
absl::StatusOr<std::optional<FoundData>> FindNpz(const FolderContent& content);
absl::StatusOr<std::optional<FoundData>> FindTfRecords(const FolderContent& content);
absl::StatusOr<std::optional<FoundData>> FindParquet(const FolderContent& content);
absl::StatusOr<std::optional<FoundData>> FindCsv(const FolderContent& content);
absl::StatusOr<std::optional<FoundData>> FindText(const FolderContent& content);

// Where the last tenth of `examples` begins, the evaluation of a file that is both.
int64_t EvaluationCut(int64_t examples);
// Notes classes that the training (examples before `cut`) or the evaluation (the others) has none
// of, as in a file that is sorted. `labels` are those of all examples in the file's order.
void NoteMissingClasses(std::span<const int64_t> labels, int64_t cut, FoundData& found);

// Whether a word of a file's name says that it is for evaluation: test.csv, ptb.valid.txt.
bool IsEvaluation(std::string_view file);
// Puts those that have a word train before the others: train.csv, ptb.train.txt.
void SortTrainFirst(std::vector<std::string>& files);
// The file for evaluation beside the first, which trains: one for validation before one for tests.
// "": there is none.
std::string EvaluationAmong(const std::vector<std::string>& files);
// Notes the files of the format that the job does not read. It reads the first, and `eval`. `hint`
// follows.
void NoteLeftOut(const std::vector<std::string>& files, const std::string& eval, std::string_view hint, FoundData& found);

// A quoted YAML text.
std::string YamlText(std::string_view text);
// The first few of them, for a comment.
std::string NamesText(const std::vector<std::string>& names);

}  // namespace trainyard::engine
