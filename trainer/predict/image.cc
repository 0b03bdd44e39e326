#include "trainer/predict/image.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <cmath>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

constexpr int kRgbChannels = 3;

// Frees what libpng holds on every way out.
struct PngReader {
  png_image image{};
  PngReader() {
    image.version = PNG_IMAGE_VERSION;
    image.flags = PNG_IMAGE_FLAG_16BIT_sRGB;
  }
  ~PngReader() { png_image_free(&image); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
};

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

}  // namespace

bool IsPng(std::string_view bytes) { return bytes.starts_with("\x89PNG\r\n\x1a\n"); }

absl::StatusOr<Image> DecodePng(std::string_view bytes) {
  PngReader reader;
  png_image& image = reader.image;
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) {
    return absl::DataLossError(fmt::format("the PNG cannot be read: {}", image.message));
  }
  if (std::max(image.width, image.height) > kMaxImageSide || int64_t{image.width} * image.height > kMaxImagePixels) {
    return absl::InvalidArgumentError(fmt::format("the PNG has {} x {} pixels (height x width), at most {} a side and {} in all are read",
                                                  image.height, image.width, kMaxImageSide, kMaxImagePixels));
  }
  image.format = PNG_FORMAT_RGBA;
  std::vector<uint8_t> rgba(PNG_IMAGE_SIZE(image));
  if (png_image_finish_read(&image, nullptr, rgba.data(), /*row_stride=*/0, nullptr) == 0) {
    return absl::DataLossError(fmt::format("the PNG cannot be read: {}", image.message));
  }
  Image decoded{.height = static_cast<int>(image.height), .width = static_cast<int>(image.width), .pixels = {}};
  decoded.pixels.reserve(rgba.size() / 4 * kRgbChannels);
  for (size_t i = 0; i < rgba.size(); i += 4) {
    if (rgba[i + 3] != 255) {
      return absl::InvalidArgumentError("the PNG has transparent pixels, expected an opaque picture; put it on a background first");
    }
    decoded.pixels.insert(decoded.pixels.end(), rgba.begin() + i, rgba.begin() + i + kRgbChannels);
  }
  return decoded;
}

absl::Status CheckTakesImages(const Shape& shape) {
  if (shape.rank() == 2 || (shape.rank() == 3 && (shape[2] == 1 || shape[2] == kRgbChannels))) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("it is a picture, the model takes {}; give the numbers as .npy, IDX or JSON lines", shape.ToString()));
}

absl::StatusOr<std::vector<uint8_t>> FitImage(const Image& image, const Shape& shape, bool resize) {
  TY_CHECK(CheckTakesImages(shape).ok());
  if (image.height != shape[0] || image.width != shape[1]) {
    if (!resize) {
      return absl::InvalidArgumentError(
          fmt::format("the picture is {} x {} pixels (height x width), the model takes {} x {}; scale it, or "
                      "give --resize",
                      image.height, image.width, shape[0], shape[1]));
    }
    return FitImage(Scaled(image, static_cast<int>(shape[0]), static_cast<int>(shape[1])), shape, /*resize=*/false);
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
