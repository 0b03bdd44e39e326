#include "trainer/train/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "trainer/base/file.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

std::string PathOf(const std::string& name) {
  return ::testing::TempDir() + ::testing::UnitTest::GetInstance()->current_test_info()->name() + "_" + name;
}

std::unique_ptr<TraceWriter> Create(const std::string& path, int rank) {
  auto writer = TraceWriter::Create(path, rank, "worker " + std::to_string(rank));
  EXPECT_TRUE(writer.ok()) << writer.status();
  return *std::move(writer);
}

TraceSpan Span(std::string_view name, int64_t step) {
  return {.name = name,
          .category = "compute",
          .start = absl::UnixEpoch() + absl::Seconds(2),
          .duration = absl::Milliseconds(3),
          .lane = 1,
          .step = step};
}

// The names of all spans of a trace, which must be whole JSON.
std::vector<std::string> SpanNames(const std::string& path) {
  std::vector<std::string> names;
  for (const json& event : json::parse(*ReadFile(path))) {
    if (event["ph"] == "X") names.push_back(event["name"]);
  }
  return names;
}

TEST(Trace, ASpanKeepsItsTimesAndItsPlace) {
  const std::string path = PathOf("a");
  {
    auto writer = Create(path, 3);
    writer->NameLane(1, "phases");
    writer->Add(Span("conv1 \"quoted\"", 7));
    ASSERT_TRUE(writer->Close().ok());
  }
  const json events = json::parse(*ReadFile(path));
  EXPECT_EQ(events[0]["args"]["name"], "worker 3");
  EXPECT_EQ(events[2]["args"]["name"], "phases");
  const json& span = events[3];
  EXPECT_EQ(span["name"], "conv1 \"quoted\"");
  EXPECT_EQ(span["cat"], "compute");
  EXPECT_EQ(span["ts"], 2e6);
  EXPECT_EQ(span["dur"], 3000.0);
  EXPECT_EQ(span["pid"], 3);
  EXPECT_EQ(span["tid"], 1);
  EXPECT_EQ(span["args"]["step"], 7);
}

TEST(Trace, TheDestructorClosesTheArray) {
  const std::string path = PathOf("a");
  Create(path, 0)->Add(Span("x", 0));
  EXPECT_THAT(SpanNames(path), ElementsAre("x"));
}

TEST(Trace, PartsOfAllRanksAreOneFile) {
  const std::string a = PathOf("a");
  const std::string b = PathOf("b");
  Create(a, 0)->Add(Span("x", 0));
  Create(b, 1)->Add(Span("y", 0));
  auto missing = MergeTraces({a, b, PathOf("none")}, PathOf("out"));
  ASSERT_TRUE(missing.ok()) << missing.status();
  EXPECT_THAT(*missing, ElementsAre(PathOf("none")));
  EXPECT_THAT(SpanNames(PathOf("out")), ElementsAre("x", "y"));
}

TEST(Trace, APartThatWasCutOffAnywhereStillMerges) {
  const std::string whole = PathOf("whole");
  {
    auto writer = Create(whole, 0);
    writer->Add(Span("x", 0));
    writer->Add(Span("y", 1));
  }
  const std::string text = *ReadFile(whole);
  const std::string good = PathOf("good");
  Create(good, 1)->Add(Span("z", 0));
  for (size_t length = 0; length <= text.size(); length += 5) {
    ASSERT_TRUE(WriteFileDurably(PathOf("cut"), text.substr(0, length)).ok());
    ASSERT_TRUE(MergeTraces({PathOf("cut"), good}, PathOf("out")).ok());
    EXPECT_EQ(SpanNames(PathOf("out")).back(), "z") << length;
  }
}

TEST(Trace, AFileThatCannotBeMadeIsNamed) {
  EXPECT_EQ(TraceWriter::Create("/no/such/folder/trace.json", 0, "x").status().code(), absl::StatusCode::kNotFound);
  auto full = TraceWriter::Create("/dev/full", 0, "x");
  ASSERT_TRUE(full.ok());
  EXPECT_EQ((*full)->Flush().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace trainyard::engine
