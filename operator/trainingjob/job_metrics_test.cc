#include "operator/trainingjob/job_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "operator/children/test_makers.h"
#include "operator/plan/conditions.h"

namespace trainyard::control {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class JobMetricsTest : public ::testing::Test {
 protected:
  std::string Page() { return prometheus::TextSerializer().Serialize(registry_.Collect()); }

  prometheus::Registry registry_;
  JobMetrics metrics_{registry_};
  const TrainingJob job_ = MakeJob().Replicas("worker", 1).Build();
};

TEST_F(JobMetricsTest, AJobWhoseFirstStatusSaysRunningCountsForTheTimeToRunning) {
  TrainingJobStatus running;
  running.phase = JobPhase::kRunning;
  running.running_time = kStart + absl::Seconds(2);
  SetCondition(running, kRunning, true, "AllReplicasReady", "", kStart + absl::Seconds(2));
  metrics_.Wrote("default/mnist", job_, {}, running);
  EXPECT_THAT(Page(), HasSubstr("trainyard_job_time_to_running_seconds_count 1"));
  EXPECT_THAT(Page(), HasSubstr("trainyard_job_time_to_running_seconds_sum 2"));
  metrics_.Wrote("default/mnist", job_, running, running);
  EXPECT_THAT(Page(), HasSubstr("trainyard_job_time_to_running_seconds_count 1")) << "once";
}

TEST_F(JobMetricsTest, ALossThatWasNotReportedIsNotZero) {
  TrainingJobStatus status;
  status.phase = JobPhase::kRunning;
  status.progress = Progress{.step = 7};
  metrics_.Seen("default/mnist", job_, status);
  EXPECT_THAT(Page(), HasSubstr("trainyard_job_step{job=\"mnist\",namespace=\"default\"} 7"));
  EXPECT_THAT(Page(), Not(HasSubstr("trainyard_job_loss{")));
  status.progress->loss = 0.5;
  metrics_.Seen("default/mnist", job_, status);
  EXPECT_THAT(Page(), HasSubstr("trainyard_job_loss{job=\"mnist\",namespace=\"default\"} 0.5"));
  metrics_.Gone("default/mnist");
  EXPECT_THAT(Page(), Not(HasSubstr("job=\"mnist\"")));
}

TEST_F(JobMetricsTest, ANumberOfTheProgressThatIsNotReportedHasNoSeries) {
  TrainingJobStatus status;
  status.progress = Progress{.step = 50, .percent = 25.0, .eta_seconds = 90, .stragglers = {"worker-3"}};
  metrics_.Seen("default/mnist", job_, status);
  EXPECT_THAT(Page(), HasSubstr("trainyard_job_progress_ratio{job=\"mnist\",namespace=\"default\"} 0.25"));
  EXPECT_THAT(Page(), HasSubstr("trainyard_job_eta_seconds{job=\"mnist\",namespace=\"default\"} 90"));
  EXPECT_THAT(Page(), HasSubstr("trainyard_job_stragglers{job=\"mnist\",namespace=\"default\"} 1"));
  EXPECT_THAT(Page(), Not(HasSubstr("trainyard_job_examples_per_second{")));
  status.phase = JobPhase::kSucceeded;
  metrics_.Seen("default/mnist", job_, status);
  EXPECT_THAT(Page(), Not(HasSubstr("job=\"mnist\"")));
}

TEST_F(JobMetricsTest, AHeldJobIsCountedByItsReasonUntilItMovesOrEnds) {
  TrainingJobStatus status;
  status.phase = JobPhase::kPending;
  SetCondition(status, kStalled, true, "Unschedulable", "no node has 4 CPU", kStart);
  metrics_.Seen("default/mnist", job_, status);
  metrics_.Seen("default/other", job_, status);
  EXPECT_THAT(Page(), HasSubstr("trainyard_jobs_stalled{reason=\"Unschedulable\"} 2"));
  SetCondition(status, kStalled, true, "ImagePullBackOff", "", kStart);
  metrics_.Seen("default/mnist", job_, status);
  EXPECT_THAT(Page(), HasSubstr("trainyard_jobs_stalled{reason=\"Unschedulable\"} 1"));
  EXPECT_THAT(Page(), HasSubstr("trainyard_jobs_stalled{reason=\"ImagePullBackOff\"} 1"));
  status.phase = JobPhase::kFailed;
  metrics_.Seen("default/mnist", job_, status);
  metrics_.Gone("default/other");
  EXPECT_THAT(Page(), HasSubstr("trainyard_jobs_stalled{reason=\"Unschedulable\"} 0"));
  EXPECT_THAT(Page(), HasSubstr("trainyard_jobs_stalled{reason=\"ImagePullBackOff\"} 0"));
}

}  // namespace
}  // namespace trainyard::control
