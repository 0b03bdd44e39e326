// JPEG files for tests.
#pragma once

#include <fmt/format.h>  // brings what libjpeg's header wants before it
#include <jpeglib.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace trainyard::engine {

struct TestJpeg {
  int height = 8;
  int width = 8;
  int channels = 3;  // 1: grey, 3: RGB, 4: CMYK
  std::vector<uint8_t> pixels;
  bool progressive = false;
  std::string app1 = {};  // the data of an APP1 marker

  std::string Make() const {
    jpeg_compress_struct picture{};
    jpeg_error_mgr errors{};
    picture.err = jpeg_std_error(&errors);
    jpeg_create_compress(&picture);
    unsigned char* bytes = nullptr;
    unsigned long size = 0;  // NOLINT(google-runtime-int): libjpeg's
    jpeg_mem_dest(&picture, &bytes, &size);
    picture.image_height = static_cast<JDIMENSION>(height);
    picture.image_width = static_cast<JDIMENSION>(width);
    picture.input_components = channels;
    picture.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&picture);
    jpeg_set_quality(&picture, 100, TRUE);
    if (progressive) jpeg_simple_progression(&picture);
    jpeg_start_compress(&picture, TRUE);
    if (!app1.empty()) {
      jpeg_write_marker(&picture, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(app1.data()), static_cast<unsigned>(app1.size()));
    }
    std::vector<uint8_t> row(static_cast<size_t>(width) * channels);
    while (picture.next_scanline < picture.image_height) {
      row.assign(pixels.begin() + picture.next_scanline * row.size(), pixels.begin() + (picture.next_scanline + 1) * row.size());
      JSAMPROW line = row.data();
      jpeg_write_scanlines(&picture, &line, 1);
    }
    jpeg_finish_compress(&picture);
    jpeg_destroy_compress(&picture);
    std::string file(reinterpret_cast<const char*>(bytes), size);
    std::free(bytes);
    return file;
  }
};

// The data of an APP1 marker that notes an orientation, as little-endian EXIF.
inline std::string ExifOf(char orientation) {
  using namespace std::string_literals;
  return "Exif\0\0II\x2a\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0"s + orientation + "\0\0\0\0\0\0\0"s;
}

}  // namespace trainyard::engine
