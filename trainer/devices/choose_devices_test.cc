#include "trainer/devices/choose_devices.h"

#include <gmock/gmock.h>

#include <map>

namespace trainyard::engine {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = DeviceRequest::Kind;

const absl::Status kNoDriver = absl::UnavailableError("this machine has no NVIDIA driver (no libcuda.so.1)");
const absl::Status kOldDriver = absl::UnavailableError("the driver is of CUDA 12.4, this build needs 13.0 or newer; update the driver");

// A driver that must not be asked.
absl::StatusOr<int> Untouched() {
  ADD_FAILURE() << "the driver was started";
  return 8;
}

GpuCount Driver(absl::StatusOr<int> answer) {
  return [answer] { return answer; };
}

GpuEnvironment Pod(std::optional<std::string> nvidia_visible) {
  return {.in_pod = true, .cuda_visible = {}, .nvidia_visible = std::move(nvidia_visible)};
}

DeviceChoice Auto(const GpuEnvironment& environment, const GpuCount& driver, int devices = 1, int before = 0) {
  const auto choice = ChooseDevices({.count = devices, .before = before}, environment, driver);
  EXPECT_TRUE(choice.ok()) << choice.status();
  return *choice;
}

absl::StatusOr<DeviceChoice> Ask(const char* request, const GpuEnvironment& environment, const GpuCount& driver, int devices = 1) {
  return ChooseDevices({.request = *ParseDeviceRequest(request), .count = devices}, environment, driver);
}

TEST(ChooseDevices, AutoTakesTheFirstGpuOfAMachineThatHasOne) {
  const DeviceChoice choice = Auto({}, Driver(1));
  EXPECT_THAT(choice.gpus, ElementsAre(0));
  EXPECT_EQ(choice.reason, "1 GPU is visible");
  EXPECT_EQ(choice.advice, "");
}

TEST(ChooseDevices, AutoTakesTheProcessorAndSaysWhyWhereThereIsNoDriverOrATooOldOneOrNoGpu) {
  EXPECT_THAT(Auto({}, Driver(kNoDriver)).gpus, IsEmpty());
  EXPECT_EQ(Auto({}, Driver(kNoDriver)).reason, kNoDriver.message());
  EXPECT_THAT(Auto({}, Driver(kOldDriver)).gpus, IsEmpty());
  EXPECT_THAT(Auto({}, Driver(kOldDriver)).reason, HasSubstr("this build needs 13.0"));
  EXPECT_THAT(Auto({}, Driver(0)).gpus, IsEmpty());
  EXPECT_EQ(Auto({}, Driver(0)).reason, "no GPU is visible");
}

TEST(ChooseDevices, CpuNeverStartsTheDriver) {
  const auto choice = Ask("cpu", {}, Untouched);
  EXPECT_THAT(choice->gpus, IsEmpty());
  EXPECT_EQ(choice->reason, "spec.training.resources.devices asks for cpu");
}

TEST(ChooseDevices, CudaVisibleDevicesMayHideAllGpus) {
  for (const char* hidden : {"", "-1"}) {
    const DeviceChoice choice = Auto({.cuda_visible = hidden}, Untouched);
    EXPECT_THAT(choice.gpus, IsEmpty());
    EXPECT_EQ(choice.reason, std::string("CUDA_VISIBLE_DEVICES=") + hidden + " hides all GPUs");
  }
}

TEST(ChooseDevices, CudaVisibleDevicesIsNamedBesideWhatTheDriverSays) {
  EXPECT_EQ(Auto({.cuda_visible = "4,5"}, Driver(2)).reason, "2 GPUs are visible with CUDA_VISIBLE_DEVICES=4,5");
  EXPECT_EQ(Auto({.cuda_visible = "9"}, Driver(0)).reason, "no GPU is visible with CUDA_VISIBLE_DEVICES=9");
  EXPECT_THAT(Auto({.cuda_visible = "9"}, Driver(kNoDriver)).reason, HasSubstr("(CUDA_VISIBLE_DEVICES=9)"));
}

TEST(ChooseDevices, APodUsesTheGpuThatADevicePluginGaveIt) {
  for (const auto& given : {std::optional<std::string>("GPU-8d34a3f1"), std::optional<std::string>("MIG-11"),
                            std::optional<std::string>("0"), std::optional<std::string>("/var/run/nvidia-container-devices"),
                            std::optional<std::string>("void"), std::optional<std::string>()}) {
    EXPECT_THAT(Auto(Pod(given), Driver(1)).gpus, ElementsAre(0)) << given.value_or("unset");
  }
}

TEST(ChooseDevices, APodThatWasGivenNoGpuTakesTheProcessor) {
  // The runtime shows it none, whatever the node has.
  EXPECT_THAT(Auto(Pod("void"), Driver(kNoDriver)).gpus, IsEmpty());
  EXPECT_THAT(Auto(Pod({}), Driver(kNoDriver)).gpus, IsEmpty());
}

TEST(ChooseDevices, AnImageThatShowsAllGpusOfItsNodeGivesAPodNone) {
  const DeviceChoice all = Auto(Pod("all"), Untouched);
  EXPECT_THAT(all.gpus, IsEmpty());
  EXPECT_THAT(all.reason, HasSubstr("NVIDIA_VISIBLE_DEVICES=all comes from its image"));
  for (const char* none : {"none", ""}) {
    EXPECT_THAT(Auto(Pod(none), Untouched).gpus, IsEmpty());
    EXPECT_THAT(Auto(Pod(none), Untouched).reason, HasSubstr("the pod was given no GPU"));
  }
  GpuEnvironment chosen = Pod("all");
  chosen.cuda_visible = "1";  // somebody chose for this pod
  EXPECT_THAT(Auto(chosen, Driver(1)).gpus, ElementsAre(0));
}

TEST(ChooseDevices, OutsideOfPodsAllIsWhatSomebodyAskedTheContainerRuntimeFor) {
  EXPECT_THAT(Auto({.nvidia_visible = "all"}, Driver(2)).gpus, ElementsAre(0));
}

TEST(ChooseDevices, DevicesOfAWorkerTakeAGpuEachAndShareWhereThereAreFewer) {
  EXPECT_THAT(Auto({}, Driver(4), 2).gpus, ElementsAre(0, 1));
  EXPECT_THAT(Auto({}, Driver(2), 4).gpus, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(Auto({}, Driver(2), 4).advice, HasSubstr("4 devices share 2 GPUs"));
}

TEST(ChooseDevices, APodIsToldOfGpusThatItDoesNotUse) {
  EXPECT_EQ(Auto(Pod("GPU-1,GPU-2,GPU-3,GPU-4"), Driver(4)).advice, "3 GPUs of 4 are not used: training.devices: 4 trains on all of them");
  EXPECT_EQ(Auto(Pod("GPU-1,GPU-2"), Driver(2), 2).advice, "");
  EXPECT_EQ(Auto({}, Driver(4)).advice, "");  // of a machine, which others use too
}

TEST(ChooseDevices, TrainersOfOneMachineSpreadOverItsGpusButPodsHaveTheirOwn) {
  EXPECT_THAT(Auto({}, Driver(4), 1, 3).gpus, ElementsAre(3));
  EXPECT_THAT(Auto({}, Driver(4), 2, 2).gpus, ElementsAre(2, 3));
  EXPECT_THAT(Auto({}, Driver(2), 1, 3).gpus, ElementsAre(1));
  EXPECT_THAT(Auto(Pod("GPU-1,GPU-2"), Driver(2), 1, 3).gpus, ElementsAre(0));
}

TEST(ChooseDevices, GpusByNumberAreTakenAsNamed) {
  EXPECT_THAT(Ask("cuda:1", {}, Driver(2))->gpus, ElementsAre(1));
  EXPECT_THAT(Ask("cuda:1", {}, Driver(2), 2)->gpus, ElementsAre(1, 1));
  EXPECT_THAT(Ask("cuda:3,cuda:1", {}, Driver(4), 2)->gpus, ElementsAre(3, 1));
  EXPECT_THAT(Ask("cuda", {}, Driver(4), 3)->gpus, ElementsAre(0, 1, 2));
  EXPECT_EQ(Ask("cuda:1", {}, Driver(2))->reason, "spec.training.resources.devices asks for cuda:1");
}

TEST(ChooseDevices, AGpuThatIsNotThereIsAnErrorWithWhatThereIs) {
  const auto beyond = Ask("cuda:2", {.cuda_visible = "4,5"}, Driver(2));
  EXPECT_EQ(beyond.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(beyond.status().message(),
            "spec.training.resources.devices: found cuda:2, but 2 GPUs are visible with CUDA_VISIBLE_DEVICES=4,5; take some of cuda:0 to "
            "cuda:1");
  EXPECT_EQ(Ask("cuda:1", {}, Driver(1)).status().message(),
            "spec.training.resources.devices: found cuda:1, but 1 GPU is visible; take cuda:0");
  EXPECT_EQ(Ask("cuda", {}, Driver(2), 4).status().message(),
            "spec.training.resources.devices: found cuda, but 2 GPUs are visible for 4 devices; take training.devices: 2, or auto");
}

TEST(ChooseDevices, GpusThatAreAskedForWithoutADriverAreAnErrorWithWhatToDo) {
  EXPECT_EQ(
      Ask("cuda:0", {}, Driver(kNoDriver)).status().message(),
      "spec.training.resources.devices: found cuda:0, but this machine has no NVIDIA driver (no libcuda.so.1); take auto or cpu, or see "
      "docs/gpus.md");
  EXPECT_THAT(Ask("cuda", {}, Driver(kOldDriver)).status().message(), HasSubstr("update the driver; take auto or cpu"));
  EXPECT_THAT(Ask("cuda:0", Pod("void"), Driver(0)).status().message(),
              AllOf(HasSubstr("no GPU is visible"), HasSubstr("ask for nvidia.com/gpu in the replica's limits")));
  EXPECT_THAT(Ask("cuda:0", {.cuda_visible = "-1"}, Driver(0)).status().message(), HasSubstr("CUDA_VISIBLE_DEVICES=-1"));
}

TEST(ChooseDevices, AChoiceIsToldInWords) {
  EXPECT_EQ(ChosenText({}), "cpu");
  EXPECT_EQ(ChosenText({.gpus = {1}}), "cuda:1");
  EXPECT_EQ(ChosenText({.gpus = {0, 1, 0, 1}}), "cuda:0 and cuda:1");
}

TEST(GpuEnvironment, IsReadFromTheVariablesOfPodDriverAndRuntime) {
  const std::map<std::string, std::string> variables = {
      {"KUBERNETES_SERVICE_HOST", "10.0.0.1"}, {"CUDA_VISIBLE_DEVICES", ""}, {"NVIDIA_VISIBLE_DEVICES", "void"}};
  const GpuEnvironment pod = ReadGpuEnvironment([&](const char* name) { return variables.at(name).c_str(); });
  EXPECT_TRUE(pod.in_pod);
  EXPECT_EQ(pod.cuda_visible, "");
  EXPECT_EQ(pod.nvidia_visible, "void");
  const GpuEnvironment machine = ReadGpuEnvironment([](const char*) { return nullptr; });
  EXPECT_FALSE(machine.in_pod || machine.cuda_visible || machine.nvidia_visible);
}

}  // namespace
}  // namespace trainyard::engine
