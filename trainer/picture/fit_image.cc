#include "trainer/picture/fit_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

uint8_t Rounded(double value) { return static_cast<uint8_t>(std::clamp(std::floor(value + 0.5), 0.0, 255.0)); }

// The pixels that one pixel of a scaled row is made of, and their shares.
struct Merged {
  int first = 0;
  std::vector<double> shares;
};

std::vector<Merged> MergesOf(int from, int to) {
  const double ratio = static_cast<double>(from) / to;
  const double reach = std::max(1.0, ratio);
  std::vector<Merged> merges(static_cast<size_t>(to));
  for (int i = 0; i < to; ++i) {
    const double middle = (i + 0.5) * ratio;
    const int first = std::max(0, static_cast<int>(std::floor(middle - reach)));
    const int end = std::min(from, static_cast<int>(std::ceil(middle + reach)) + 1);
    Merged& merged = merges[static_cast<size_t>(i)];
    merged.first = first;
    double sum = 0;
    for (int pixel = first; pixel < end; ++pixel) {
      merged.shares.push_back(std::max(0.0, 1 - std::abs(pixel + 0.5 - middle) / reach));
      sum += merged.shares.back();
    }
    for (double& share : merged.shares) share /= sum;
  }
  return merges;
}

// Every row, then every column.
Image Scaled(const Image& image, int height, int width) {
  const std::vector<Merged> columns = MergesOf(image.width, width);
  std::vector<float> rows(static_cast<size_t>(image.height) * width * kRgbChannels);
  for (int y = 0; y < image.height; ++y) {
    const uint8_t* from = image.pixels.data() + static_cast<size_t>(y) * image.width * kRgbChannels;
    float* to = rows.data() + static_cast<size_t>(y) * width * kRgbChannels;
    for (const Merged& merged : columns) {
      for (int channel = 0; channel < kRgbChannels; ++channel) {
        double sum = 0;
        for (size_t i = 0; i < merged.shares.size(); ++i) sum += merged.shares[i] * from[(merged.first + i) * kRgbChannels + channel];
        *to++ = static_cast<float>(sum);
      }
    }
  }
  Image scaled{.height = height, .width = width, .pixels = std::vector<uint8_t>(static_cast<size_t>(height) * width * kRgbChannels)};
  const size_t row = static_cast<size_t>(width) * kRgbChannels;
  uint8_t* to = scaled.pixels.data();
  for (const Merged& merged : MergesOf(image.height, height)) {
    for (size_t x = 0; x < row; ++x) {
      double sum = 0;
      for (size_t i = 0; i < merged.shares.size(); ++i) sum += merged.shares[i] * rows[(merged.first + i) * row + x];
      *to++ = Rounded(sum);
    }
  }
  return scaled;
}

// The largest part from the middle that has the proportions of height and width.
Image MiddleOf(const Image& image, int height, int width) {
  const auto fitting = [](int64_t side, int64_t wanted, int64_t other) {
    return static_cast<int>(std::max<int64_t>(1, side * wanted / other));
  };
  Image middle{.height = std::min(image.height, fitting(image.width, height, width)),
               .width = std::min(image.width, fitting(image.height, width, height)),
               .pixels = {}};
  const int top = (image.height - middle.height) / 2;
  const int left = (image.width - middle.width) / 2;
  const size_t row_bytes = static_cast<size_t>(middle.width) * kRgbChannels;
  middle.pixels.resize(middle.height * row_bytes);
  for (int y = 0; y < middle.height; ++y) {
    const size_t from = (static_cast<size_t>(top + y) * image.width + left) * kRgbChannels;
    std::copy_n(image.pixels.data() + from, row_bytes, middle.pixels.data() + y * row_bytes);
  }
  return middle;
}

}  // namespace

absl::Status CheckTakesImages(const Shape& shape) {
  if (shape.rank() == 2 || (shape.rank() == 3 && (shape[2] == 1 || shape[2] == kRgbChannels))) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("it is a picture, the model takes {}; give the numbers as .npy, IDX or JSON lines", shape.ToString()));
}

absl::StatusOr<std::vector<uint8_t>> FitImage(const Image& image, const Shape& shape, ImageFit fit) {
  TY_CHECK(CheckTakesImages(shape).ok());
  const auto height = static_cast<int>(shape[0]);
  const auto width = static_cast<int>(shape[1]);
  if (image.height != height || image.width != width) {
    switch (fit) {
      case ImageFit::kExact:
        return absl::InvalidArgumentError(
            fmt::format("the picture is {} x {} pixels (height x width), the model takes {} x {}; scale it, or "
                        "give --resize",
                        image.height, image.width, height, width));
      case ImageFit::kCrop:
        return FitImage(Scaled(MiddleOf(image, height, width), height, width), shape, ImageFit::kExact);
      case ImageFit::kStretch:
        return FitImage(Scaled(image, height, width), shape, ImageFit::kExact);
    }
  }
  if (shape.rank() == 3 && shape[2] == kRgbChannels) return image.pixels;
  std::vector<uint8_t> grey;
  grey.reserve(image.pixels.size() / kRgbChannels);
  for (size_t i = 0; i < image.pixels.size(); i += kRgbChannels) {
    grey.push_back(static_cast<uint8_t>((299 * image.pixels[i] + 587 * image.pixels[i + 1] + 114 * image.pixels[i + 2] + 500) / 1000));
  }
  return grey;
}

}  // namespace trainyard::engine
