#include "trainer/picture/fit_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

// A part of a picture.
struct Part {
  int top, left, height, width;
};

// The pixels that one pixel of a scaled row or column is made of, and their shares.
struct Merged {
  int first = 0;
  std::vector<float> shares;
};

std::vector<Merged> MergesOf(int from, int to) {
  const double ratio = static_cast<double>(from) / to;
  const double reach = std::max(1.0, ratio);
  std::vector<Merged> merges(static_cast<size_t>(to));
  for (int i = 0; i < to; ++i) {
    const double middle = (i + 0.5) * ratio;
    const int first = std::max(0, static_cast<int>(std::floor(middle - reach)));
    const int end = std::min(from, static_cast<int>(std::ceil(middle + reach)) + 1);
    const auto share = [&](int pixel) { return std::max(0.0, 1 - std::abs(pixel + 0.5 - middle) / reach); };
    double sum = 0;
    for (int pixel = first; pixel < end; ++pixel) sum += share(pixel);
    Merged& merged = merges[static_cast<size_t>(i)];
    merged.first = first;
    for (int pixel = first; pixel < end; ++pixel) merged.shares.push_back(static_cast<float>(share(pixel) / sum));
  }
  return merges;
}

// Of a sum whose shares are 1 together, but for their rounding.
uint8_t Rounded(float value) { return static_cast<uint8_t>(std::min(value + 0.5f, 255.0f)); }

// A row of `width` pixels from one that is taken apart by `columns`.
void ScaleRow(const float* from, const std::vector<Merged>& columns, uint8_t* to) {
  for (const Merged& merged : columns) {
    const float* pixel = from + size_t{kRgbChannels} * merged.first;
    float red = 0, green = 0, blue = 0;
    for (const float share : merged.shares) {
      red += share * pixel[0];
      green += share * pixel[1];
      blue += share * pixel[2];
      pixel += kRgbChannels;
    }
    *to++ = Rounded(red);
    *to++ = Rounded(green);
    *to++ = Rounded(blue);
  }
}

// Rows of the part are merged first, so that fewer rows have their columns merged.
Image Scaled(const Image& image, const Part& part, int height, int width) {
  const std::vector<Merged> columns = MergesOf(part.width, width);
  Image scaled{.height = height, .width = width, .pixels = std::vector<uint8_t>(size_t{kRgbChannels} * height * width)};
  std::vector<float> row(size_t{kRgbChannels} * part.width);
  uint8_t* to = scaled.pixels.data();
  for (const Merged& merged : MergesOf(part.height, height)) {
    std::ranges::fill(row, 0.0f);
    const auto first = static_cast<size_t>(part.top + merged.first) * image.width + part.left;
    const uint8_t* from = image.pixels.data() + first * kRgbChannels;
    for (const float share : merged.shares) {
      for (size_t x = 0; x < row.size(); ++x) row[x] += share * from[x];
      from += size_t{kRgbChannels} * image.width;
    }
    ScaleRow(row.data(), columns, to);
    to += size_t{kRgbChannels} * width;
  }
  return scaled;
}

// The largest part from the middle that has the proportions of height and width.
Part MiddleOf(const Image& image, int height, int width) {
  const auto fitting = [](int64_t side, int64_t wanted, int64_t other) {
    return static_cast<int>(std::max<int64_t>(1, side * wanted / other));
  };
  Part middle = {};
  middle.height = std::min(image.height, fitting(image.width, height, width));
  middle.width = std::min(image.width, fitting(image.height, width, height));
  middle.top = (image.height - middle.height) / 2;
  middle.left = (image.width - middle.width) / 2;
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
        return FitImage(Scaled(image, MiddleOf(image, height, width), height, width), shape, ImageFit::kExact);
      case ImageFit::kStretch:
        return FitImage(Scaled(image, {0, 0, image.height, image.width}, height, width), shape, ImageFit::kExact);
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
