#include "trainer/report/summary_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "trainer/base/fake_clock.h"
#include "trainer/base/file.h"
#include "trainer/base/file_error.h"
#include "trainer/base/test_process.h"
#include "trainer/report/proto/event.pb.h"
#include "trainer/tfrecord/tfrecord.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

class SummaryWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "summary_test_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(dir_);
  }
  std::unique_ptr<SummaryWriter> Create() {
    auto writer = SummaryWriter::Create(dir_, clock_);
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }
  static std::vector<tensorboard::Event> EventsOf(const std::string& path) {
    const std::string bytes = *ReadFile(path);
    std::vector<tensorboard::Event> events;
    for (std::string_view rest = bytes; !rest.empty();) {
      auto record = TakeTfRecord(rest);
      EXPECT_TRUE(record.ok()) << record.status();
      if (!record.ok()) break;
      EXPECT_TRUE(events.emplace_back().ParseFromString(std::string(*record)));
    }
    return events;
  }

  FakeClock clock_;
  std::string dir_;
};

TEST_F(SummaryWriterTest, TheFirstEventIsTheFileVersion) {
  auto writer = Create();
  EXPECT_THAT(fs::path(writer->path()).filename().string(), StartsWith("events.out.tfevents.1700000000."));
  ASSERT_TRUE(writer->Flush().ok());
  const auto events = EventsOf(writer->path());
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[0].wall_time(), 1700000000);
}

TEST_F(SummaryWriterTest, ScalarsKeepStepTagAndValue) {
  auto writer = Create();
  ASSERT_TRUE(writer->Scalar(7, "loss", 0.25).ok());
  ASSERT_TRUE(writer->Flush().ok());
  const auto events = EventsOf(writer->path());
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_EQ(events[1].step(), 7);
  EXPECT_EQ(events[1].summary().value(0).tag(), "loss");
  EXPECT_EQ(events[1].summary().value(0).simple_value(), 0.25F);
}

TEST_F(SummaryWriterTest, AFileOfATrainingThatGoesOnVoidsLaterStepsOfOthers) {
  auto writer = Create();
  ASSERT_TRUE(writer->GoOnAfter(40).ok());
  ASSERT_TRUE(writer->Flush().ok());
  const auto events = EventsOf(writer->path());
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_EQ(events[1].session_log().status(), tensorboard::SessionLog::START);
  EXPECT_EQ(events[1].step(), 41);  // the first that TensorBoard drops
}

TEST_F(SummaryWriterTest, HistogramsHaveAnEmptyBucketAtTheirLowerEnd) {
  auto writer = Create();
  ASSERT_TRUE(writer->Histogram(1, "kernel", std::vector<float>{1, 2, 3}).ok());
  ASSERT_TRUE(writer->Flush().ok());
  const std::vector<tensorboard::Event> events = EventsOf(writer->path());
  const tensorboard::Histogram& histogram = events.at(1).summary().value(0).histo();
  EXPECT_EQ(histogram.num(), 3);
  EXPECT_EQ(histogram.bucket_limit(0), 1);
  EXPECT_EQ(histogram.bucket(0), 0);
  EXPECT_EQ(histogram.bucket_limit_size(), histogram.bucket_size());
}

TEST_F(SummaryWriterTest, TheGraphKeepsNamesInputsAndShapes) {
  auto writer = Create();
  const std::vector<GraphSummaryNode> nodes = {{.name = "input", .op = "input", .output_shapes = {{128, 28, 28, 1}}},
                                               {.name = "conv/conv2d", .op = "conv2d", .inputs = {"input"}}};
  ASSERT_TRUE(writer->Graph(nodes).ok());
  ASSERT_TRUE(writer->Flush().ok());
  tensorboard::Graph graph;
  ASSERT_TRUE(graph.ParseFromString(EventsOf(writer->path())[1].graph_def()));
  EXPECT_EQ(graph.node(1).name(), "conv/conv2d");
  EXPECT_EQ(graph.node(1).input(0), "input");
  EXPECT_EQ(graph.node(0).attr().at("_output_shapes").list().shape(0).dim(1).size(), 28);
}

TEST_F(SummaryWriterTest, EventsAreWrittenWhenTheFlushTimeHasPassed) {
  auto writer = Create();
  ASSERT_TRUE(writer->Scalar(1, "loss", 1).ok());
  EXPECT_EQ(fs::file_size(writer->path()), 0);
  clock_.Advance(absl::Seconds(11));
  ASSERT_TRUE(writer->Scalar(2, "loss", 1).ok());
  EXPECT_THAT(EventsOf(writer->path()), SizeIs(3));
}

TEST_F(SummaryWriterTest, EventsCarryTheTimeOfDayWhoseJumpsMoveNoFlush) {
  auto writer = Create();
  clock_.JumpWall(absl::Hours(1));
  ASSERT_TRUE(writer->Scalar(1, "loss", 1).ok());
  EXPECT_EQ(fs::file_size(writer->path()), 0);
  clock_.JumpWall(-absl::Hours(2));
  clock_.Advance(absl::Seconds(10));
  ASSERT_TRUE(writer->Scalar(2, "loss", 1).ok());
  const std::vector<tensorboard::Event> events = EventsOf(writer->path());
  ASSERT_THAT(events, SizeIs(3));
  EXPECT_EQ(events[1].wall_time(), 1700000000.0 + 3600);
  EXPECT_EQ(events[2].wall_time(), 1700000000.0 - 3600 + 10);
}

TEST_F(SummaryWriterTest, TheDestructorWritesWhatIsLeft) {
  auto writer = Create();
  const std::string path = writer->path();
  ASSERT_TRUE(writer->Scalar(1, "loss", 1).ok());
  writer.reset();
  EXPECT_THAT(EventsOf(path), SizeIs(2));
}

TEST_F(SummaryWriterTest, AResumedRunAddsAFileToTheFolder) {
  const std::string first = Create()->path();
  const std::string second = Create()->path();
  EXPECT_NE(first, second);
  EXPECT_THAT(EventsOf(first), SizeIs(1));
  EXPECT_THAT(EventsOf(second), SizeIs(1));
}

TEST_F(SummaryWriterTest, AnImageThatDoesNotFitNamesItsTag) {
  auto writer = Create();
  EXPECT_THAT(std::string(writer->Image(0, "input/0", {.height = 2, .width = 2, .channels = 1}).message()),
              HasSubstr("summary 'input/0': an image of 2 x 2"));
}

TEST_F(SummaryWriterTest, AFolderThatCannotBeMadeIsNamed) {
  ASSERT_TRUE(WriteFileDurably(dir_, "a file").ok());
  auto writer = SummaryWriter::Create(dir_ + "/x", clock_);
  EXPECT_THAT(std::string(writer.status().message()), HasSubstr("cannot create folder " + dir_ + "/x"));
  fs::remove(dir_);
}

// No more files may be opened: the same status as of a full disk.
TEST_F(SummaryWriterTest, AFullDiskAtTheStartMeansNoSummaries) {
  const auto full = SummaryWriter::UnlessFull(FileError(ENOSPC, "create", dir_), dir_);
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_EQ(*full, nullptr);
  EXPECT_EQ(SummaryWriter::UnlessFull(FileError(EACCES, "create", dir_), dir_).status().code(), absl::StatusCode::kPermissionDenied);
  const auto created = SummaryWriter::CreateUnlessFull(dir_, clock_);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_NE(*created, nullptr);
}

// A file size limit stands in for a full disk. Each write of a training would meet it.
TEST_F(SummaryWriterTest, AFullDiskEndsNothingAndCostsNoRecordOnceThereIsRoomAgain) {
  auto writer = Create();
  ASSERT_TRUE(writer->Scalar(1, "loss", 1).ok());
  ASSERT_TRUE(writer->Flush().ok());
  {
    const FileSizeLimit full(fs::file_size(writer->path()) + 7);  // in the middle of the next record
    EXPECT_TRUE(writer->Scalar(2, "loss", 2).ok());
    EXPECT_TRUE(writer->Flush().ok());
    EXPECT_TRUE(writer->Flush().ok());
  }
  EXPECT_TRUE(writer->Scalar(3, "loss", 3).ok());
  EXPECT_TRUE(writer->Flush().ok());
  EXPECT_THAT(EventsOf(writer->path()), SizeIs(4));  // the file's version and three scalars
}

}  // namespace
}  // namespace trainyard::engine
