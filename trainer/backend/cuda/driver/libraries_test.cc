// The libraries that the toolkit brings have every function that is called, and cuDNN takes the
// descriptions of convolutions. Neither needs a GPU.
#include <gtest/gtest.h>

#include <random>

#include "trainer/backend/cuda/driver/cublas_lt.h"
#include "trainer/backend/cuda/driver/cudnn_operation.h"
#include "trainer/backend/cuda/window_place.h"
#include "trainer/devices/shared_library.h"

namespace trainyard::engine::cuda {
namespace {

// A system's toolkit may have its libraries elsewhere.
bool Missing(const std::string& name) { return !SharedLibrary::Open(name).ok(); }

TEST(Libraries, CublasLtHasEveryFunctionThatIsCalled) {
  if (Missing("libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR))) GTEST_SKIP() << "no cuBLASLt to look at";
  EXPECT_TRUE(LoadCublasLt().ok()) << LoadCublasLt().status();
}

TEST(Libraries, AMissingLibraryOrFunctionIsNamed) {
  EXPECT_EQ(SharedLibrary::Open("libnowhere.so.1").status().code(), absl::StatusCode::kUnavailable);
  const auto c = SharedLibrary::Open("libc.so.6");
  ASSERT_TRUE(c.ok()) << c.status();
  void (*function)() = nullptr;
  EXPECT_EQ(c->Find("not_in_c", function).message(), "libc.so.6 has no function not_in_c: it is of another version");
}

TEST(Libraries, CudnnTakesConvolutionsOfEveryWindow) {
  if (Missing("libcudnn.so." + std::to_string(CUDNN_MAJOR))) GTEST_SKIP() << "no cuDNN to look at";
  const auto functions = LoadCudnn();
  ASSERT_TRUE(functions.ok()) << functions.status();
  std::mt19937 random(7);
  const auto pick = [&](int low, int high) { return low + static_cast<int>(random() % (high - low + 1)); };
  for (int round = 0; round < 200; ++round) {
    const int size = pick(1, 5);
    const Window window{{size, pick(1, 5)}, {pick(1, 3), pick(1, 3)}, round % 2 == 0 ? Padding::kSame : Padding::kValid};
    const ConvolutionSizes sizes{pick(1, 9), PlaceOf(window, {1, pick(5, 12), pick(5, 12), pick(1, 20)}), pick(1, 20)};
    for (const auto part : {ConvolutionPart::kOutput, ConvolutionPart::kInputGradient, ConvolutionPart::kWeightGradient}) {
      for (const Element element : {Element::kFloat32, Element::kBfloat16, Element::kFloat16}) {
        const CudnnOperation operation(*functions, {sizes, part, element});
        EXPECT_TRUE(operation.operation.status().ok()) << operation.operation.status() << " in round " << round;
      }
    }
  }
}

TEST(Libraries, CudnnRefusesAConvolutionWhoseOutputDoesNotFit) {
  if (Missing("libcudnn.so." + std::to_string(CUDNN_MAJOR))) GTEST_SKIP() << "no cuDNN to look at";
  const auto functions = LoadCudnn();
  ASSERT_TRUE(functions.ok()) << functions.status();
  ConvolutionSizes sizes{2, PlaceOf({{3, 3}, {1, 1}}, {2, 9, 9, 4}), 8};
  sizes.window.in[0] = 20;
  EXPECT_FALSE(CudnnOperation(*functions, {sizes, ConvolutionPart::kOutput}).operation.status().ok());
}

}  // namespace
}  // namespace trainyard::engine::cuda
