// The vocabulary beside a text model's checkpoints, <checkpoints>/vocabulary.json: what their ids
// mean.
#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/data/text/vocabulary.h"

namespace trainyard::engine {

// Writes it into the folder `dir`, which is made. Where `dir` has checkpoints already, it must be
// the vocabulary that is there: FailedPrecondition names the first difference.
absl::Status KeepVocabulary(const std::string& dir, const Vocabulary& vocabulary, bool has_checkpoints);
// The path of vocabulary.json in the first of `dirs` that has one; NotFound names them all.
absl::StatusOr<std::string> FindVocabulary(std::span<const std::string> dirs);
// NotFound, DataLoss name the file.
absl::StatusOr<Vocabulary> ReadVocabulary(const std::string& path);

}  // namespace trainyard::engine
