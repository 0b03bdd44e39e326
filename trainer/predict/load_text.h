// What a model of text needs beside its parameters: the vocabulary, and the state that it starts
// from.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/checkpoint/find_checkpoint.h"
#include "trainer/data/text/vocabulary.h"
#include "trainer/predict/trained_model.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// The vocabulary of a checkpoint's training, by its digest: `named`, or where that is "" the
// vocabulary.json in the checkpoint's folder or beside it. NotFound: there is none;
// FailedPrecondition: it is another one. `hint` ends these messages: ", or …".
absl::StatusOr<Vocabulary> VocabularyOfTraining(const FoundCheckpoint& found, std::string_view sha256, const std::string& named,
                                                std::string_view hint);

// Fills `state`, [1, units] each, with what the training carried in its first row when the
// checkpoint was written, as far as it is there; the rest stays. Stateful training sees zeros at an
// epoch's first step only, so a model's words after zeros are poor. InvalidArgument: it is of other
// units.
absl::Status LoadFirstRow(const Checkpoint& checkpoint, ParameterSet& state);

// Fills the model's `vocabulary` and `first_row`, and names its classes by their tokens. Does
// nothing for a model that reads no text.
absl::Status LoadText(TrainedModel& model);

}  // namespace trainyard::engine
