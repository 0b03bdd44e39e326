#include "trainer/devices/device_request.h"

#include <gmock/gmock.h>

namespace trainyard::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = DeviceRequest::Kind;

TEST(DeviceRequest, AJobMaySayAutoCpuCudaOrGpusByNumber) {
  EXPECT_EQ(ParseDeviceRequest("auto")->kind, Kind::kAuto);
  EXPECT_EQ(ParseDeviceRequest("cpu")->kind, Kind::kCpu);
  EXPECT_EQ(ParseDeviceRequest("cuda")->kind, Kind::kCuda);
  EXPECT_THAT(ParseDeviceRequest("cuda")->gpus, IsEmpty());
  EXPECT_THAT(ParseDeviceRequest("cuda:1")->gpus, ElementsAre(1));
  EXPECT_THAT(ParseDeviceRequest("cuda:2,cuda:0")->gpus, ElementsAre(2, 0));
}

TEST(DeviceRequest, ItsTextIsReadAsTheSameRequest) {
  for (const char* text : {"auto", "cpu", "cuda", "cuda:0", "cuda:7", "cuda:0,cuda:1,cuda:3"}) {
    const auto request = ParseDeviceRequest(text);
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(DeviceRequestText(*request), text);
  }
}

TEST(DeviceRequest, AnythingElseIsAnErrorThatNamesItAndWhatIsExpected) {
  for (const char* text : {"", "gpu", "cuda:", "cuda:-1", "cuda:+1", "cuda: 1", "cuda:256", "cuda:99999999999", "cuda:0,", "cuda:0,1",
                           "cuda,cuda:1", "auto,cpu", "CUDA:0"}) {
    const auto request = ParseDeviceRequest(text);
    EXPECT_EQ(request.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(request.status().message(), HasSubstr(std::string("found \"") + text + "\", expected auto, cpu, cuda")) << text;
  }
  EXPECT_THAT(ParseDeviceRequest("cuda:1,cuda:1").status().message(), HasSubstr("cuda:1 is there twice"));
}

}  // namespace
}  // namespace trainyard::engine
