#include "trainer/page/live_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "trainer/base/clock.h"
#include "trainer/base/file.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

class LivePageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(dir_);
    fs::create_directories(dir_ + "/replicas");
    auto page = LivePage::Start(dir_, "digits");
    ASSERT_TRUE(page.ok()) << page.status();
    page_ = *std::move(page);
  }
  void TearDown() override { fs::remove_all(dir_); }
  httplib::Result Get(const std::string& path, const httplib::Headers& headers = {}) {
    std::string address = page_->address();
    address.pop_back();
    httplib::Client client(address);
    return client.Get(path, headers);
  }
  json Answer() { return json::parse(Get("/run.json")->body)["runs"][0]; }

  const std::string dir_ = ::testing::TempDir() + "/live_page";
  std::unique_ptr<LivePage> page_;
};

TEST_F(LivePageTest, ServesThePageAndTheProgressOfTheRun) {
  EXPECT_THAT(Get("/")->body, HasSubstr("<title>digits</title>"));
  page_->Update({.step = 10, .total_steps = 40, .loss = 2.0});
  page_->Update({.step = 20, .total_steps = 40, .loss = 1.0});
  const json run = Answer();
  EXPECT_EQ(run["name"], "digits");
  EXPECT_EQ(run["progress"]["percent"], 50);
  EXPECT_EQ(run["live"], json::parse("[[10, 2.0], [20, 1.0]]"));
}

TEST_F(LivePageTest, StepsThatAreDoneAgainReplaceTheOldOnes) {
  for (const int64_t step : {10, 20, 30}) page_->Update({.step = step, .loss = 2.0});
  page_->Update({.step = 15, .loss = 1.0});
  EXPECT_EQ(Answer()["live"], json::parse("[[10, 2.0], [15, 1.0]]"));
}

TEST_F(LivePageTest, ALongTrainingKeepsABoundedCurve) {
  for (int64_t step = 0; step < 50'000; ++step) page_->Update({.step = step, .loss = 2.0});
  EXPECT_LE(Answer()["live"].size(), 1000U);
}

TEST_F(LivePageTest, RefusesAPageThatComesByAnotherName) {
  EXPECT_EQ(Get("/run.json", {{"Host", "evil.example:80"}})->status, 403);
  EXPECT_EQ(Get("/config/key")->status, 404);
}

TEST_F(LivePageTest, WaitsForNobodyWhereNoPageIsOpen) {
  const absl::Time begin = RealClock().Now();
  page_->AwaitLastLook(absl::Hours(1));
  EXPECT_LT(RealClock().Now() - begin, absl::Minutes(1));
}

TEST_F(LivePageTest, AnOpenPageGetsTheReport) {
  EXPECT_FALSE(Answer().contains("report"));
  ASSERT_TRUE(ReplaceFile(dir_ + "/report.json", R"({"job": "digits", "state": "Succeeded"})").ok());
  EXPECT_EQ(Answer()["report"]["state"], "Succeeded");
  page_->AwaitLastLook(absl::Hours(1));  // it has it
}

}  // namespace
}  // namespace trainyard::engine
