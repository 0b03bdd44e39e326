#include "trainer/config/field_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

std::string TextOf(const FieldErrors& errors, const PathLines& lines = {}) {
  const absl::Status status = errors.ToStatus("job.yaml", lines);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(FieldErrorsTest, WithoutMistakesTheStatusIsOk) { EXPECT_TRUE(FieldErrors().ToStatus("job.yaml").ok()); }

TEST(FieldErrorsTest, EachMistakeStandsOnALineOfItsOwn) {
  FieldErrors errors;
  errors.Add("spec.a", "is wrong");
  errors.Add("spec.b", "is wrong too");
  EXPECT_EQ(TextOf(errors), "job.yaml: 2 errors\njob.yaml: spec.a: is wrong\njob.yaml: spec.b: is wrong too");
}

TEST(FieldErrorsTest, AMistakeOfTheWholeFileHasNoPath) {
  FieldErrors errors;
  errors.Add("", "found nothing");
  EXPECT_EQ(TextOf(errors), "job.yaml: 1 error\njob.yaml: found nothing");
}

TEST(FieldErrorsTest, MistakesAreSortedByLineAndAMissingFieldStandsAtItsObject) {
  FieldErrors errors;
  errors.Add("spec.training.model.layers[1].units", "is missing");
  errors.Add("spec.worker", "is wrong");
  EXPECT_EQ(TextOf(errors, {{"spec", 1}, {"spec.worker", 2}, {"spec.training", 3}, {"spec.training.model.layers[1]", 7}}),
            "job.yaml: 2 errors\njob.yaml:2: spec.worker: is wrong\njob.yaml:7: spec.training.model.layers[1].units: is missing");
}

TEST(FieldErrorsTest, AFloodOfMistakesIsCut) {
  FieldErrors errors;
  for (int i = 0; i < 1000; ++i) errors.Add("spec.x", "is wrong");
  const std::string text = TextOf(errors);
  EXPECT_THAT(text, HasSubstr("job.yaml: 1000 errors"));
  EXPECT_THAT(text, HasSubstr("and 950 more"));
}

}  // namespace
}  // namespace trainyard::engine
