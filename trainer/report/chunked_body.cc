#include "trainer/report/chunked_body.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace trainyard::engine {
namespace {

constexpr size_t kMostLineBytes = 4096;
constexpr size_t kPieceBytes = 64 << 10;  // memory is taken for what has come, not for what is announced
constexpr size_t kMostSizeDigits = 15;
constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";
constexpr std::string_view kSpaces = " \t";

// A line without its CRLF; nothing: it ends otherwise, or is too long.
std::optional<std::string> ReadLine(httplib::Stream& stream) {
  std::string line;
  for (char byte = 0; stream.read(&byte, 1) == 1 && line.size() < kMostLineBytes; line += byte) {
    if (byte != '\n') continue;
    if (line.empty() || line.find('\r') != line.size() - 1) return std::nullopt;
    line.pop_back();
    return line;
  }
  return std::nullopt;
}

// Of "1a" or "1a;name=value".
std::optional<size_t> SizeOf(std::string_view line) {
  const size_t digits = std::min(line.find_first_not_of(kHexDigits), line.size());
  if (digits == 0 || digits > kMostSizeDigits) return std::nullopt;
  const size_t rest = line.find_first_not_of(kSpaces, digits);
  if (digits < line.size() && (rest == std::string_view::npos || line[rest] != ';')) return std::nullopt;
  size_t size = 0;
  const std::string_view number = line.substr(0, digits);
  std::from_chars(number.begin(), number.end(), size, 16);
  return size;
}

bool ReadBytes(httplib::Stream& stream, size_t size, std::string& body) {
  while (size > 0) {
    const size_t before = body.size();
    body.resize(before + std::min(size, kPieceBytes));
    const ssize_t count = stream.read(&body[before], body.size() - before);
    if (count <= 0) return false;
    body.resize(before + static_cast<size_t>(count));
    size -= static_cast<size_t>(count);
  }
  return true;
}

bool IsField(std::string_view line) {
  const size_t colon = line.find(':');
  return colon != std::string_view::npos && colon > 0 && line.substr(0, colon).find_first_of(kSpaces) == std::string_view::npos;
}

}  // namespace

ChunkedRead ReadChunkedBody(httplib::Stream& stream, size_t most, std::string& body) {
  while (true) {
    const std::optional<std::string> line = ReadLine(stream);
    const std::optional<size_t> size = line ? SizeOf(*line) : std::nullopt;
    if (!size) return ChunkedRead::kBroken;
    if (*size == 0) break;
    if (*size > most - body.size()) return ChunkedRead::kTooLong;
    if (!ReadBytes(stream, *size, body)) return ChunkedRead::kBroken;
    const std::optional<std::string> end = ReadLine(stream);
    if (!end || !end->empty()) return ChunkedRead::kBroken;
  }
  while (true) {
    const std::optional<std::string> trailer = ReadLine(stream);
    if (!trailer || (!trailer->empty() && !IsField(*trailer))) return ChunkedRead::kBroken;
    if (trailer->empty()) return ChunkedRead::kWhole;
  }
}

}  // namespace trainyard::engine
