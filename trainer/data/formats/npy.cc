#include "trainer/data/formats/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <vector>

#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxHeader = 64 << 10;
constexpr int64_t kMaxElements = int64_t{1} << 46;

std::string Shown(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, 60)) shown += c >= 0x20 && c < 0x7f ? c : '?';
  return shown;
}

// How elements of another type become numbers that are read. The second letter is their kind.
std::string_view AdviceFor(std::string_view descr) {
  switch (descr.size() > 1 ? descr[1] : '\0') {
    case 'f':
      return "save it as array.astype('<f4')";
    case 'b':
    case 'i':
    case 'u':
      return "save it as array.astype('<i8')";
    case 'S':
    case 'U':
      return "texts become numbers by numpy.unique(array, return_inverse=True)[1]";
    default:
      return "save it as an array of numbers";
  }
}

absl::StatusOr<ElementType> TypeOf(std::string_view descr, std::string_view name) {
  if (descr == "|u1" || descr == "<u1") return ElementType::kU8;
  if (descr == "<i4") return ElementType::kI32;
  if (descr == "<i8") return ElementType::kI64;
  if (descr == "<f4") return ElementType::kF32;
  if (descr == "<f8") return ElementType::kF64;
  return absl::UnimplementedError(
      fmt::format("{} has elements of type '{}', expected one of |u1, <i4, <i8, <f4, <f8; {}", name, Shown(descr), AdviceFor(descr)));
}

// The dictionary of the header, field by field.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::string_view name) : text_(text), left_(text), name_(name) {}

  absl::StatusOr<NpyHeader> Parse() {
    NpyHeader header;
    bool has_descr = false;
    bool has_order = false;
    bool has_shape = false;
    if (!Take('{')) return Wrong();
    while (!Take('}')) {
      const std::optional<std::string_view> key = TakeText();
      if (!key || !Take(':')) return Wrong();
      if (*key == "descr" && !has_descr) {
        const std::optional<std::string_view> descr = TakeText();
        if (!descr) return Wrong();
        TY_ASSIGN_OR_RETURN(header.type, TypeOf(*descr, name_));
        has_descr = true;
      } else if (*key == "fortran_order" && !has_order) {
        const bool fortran = TakeWord("True");
        if (!fortran && !TakeWord("False")) return Wrong();
        if (fortran) {
          return absl::UnimplementedError(
              fmt::format("{} is in Fortran order, expected C order; save it as numpy.ascontiguousarray(array)", name_));
        }
        has_order = true;
      } else if (*key == "shape" && !has_shape) {
        const std::optional<Shape> shape = TakeShape();
        if (!shape) return Wrong();
        header.shape = *shape;
        has_shape = true;
      } else {
        return Wrong();
      }
      if (!Take(',') && Peek() != '}') return Wrong();
    }
    SkipBlanks();
    if (!has_descr || !has_order || !has_shape || (!left_.empty() && left_ != "\n")) return Wrong();
    if (header.shape.rank() == 0)
      return absl::InvalidArgumentError(fmt::format("{} holds a single number, expected one record or more", name_));
    return header;
  }

 private:
  absl::Status Wrong() const {
    return absl::InvalidArgumentError(
        fmt::format("{} has the header \"{}\", expected a dictionary such as {{'descr': '<f4', 'fortran_order': False, 'shape': (100, 28, "
                    "28), }} (up to {} axes)",
                    name_, Shown(text_), Shape::kMaxRank - 1));
  }
  void SkipBlanks() {
    while (left_.starts_with(' ')) left_.remove_prefix(1);
  }
  char Peek() {
    SkipBlanks();
    return left_.empty() ? '\0' : left_.front();
  }
  bool Take(char wanted) {
    if (left_.empty() || Peek() != wanted) return false;
    left_.remove_prefix(1);
    return true;
  }
  bool TakeWord(std::string_view word) {
    SkipBlanks();
    if (!left_.starts_with(word)) return false;
    left_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string_view> TakeText() {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return std::nullopt;
    const size_t end = left_.find(quote, 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view text = left_.substr(1, end - 1);
    left_.remove_prefix(end + 1);
    return text;
  }
  std::optional<Shape> TakeShape() {
    std::vector<int64_t> extents;
    int64_t elements = 1;
    if (!Take('(')) return std::nullopt;
    while (!Take(')')) {
      SkipBlanks();
      int64_t extent = 0;
      const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), extent);
      if (error != std::errc() || extent < 0 || extents.size() + 1 == Shape::kMaxRank) return std::nullopt;
      // An extent of 0 must not hide the others: a record has all but the first.
      if (elements > kMaxElements / std::max<int64_t>(extent, 1)) return std::nullopt;
      elements *= std::max<int64_t>(extent, 1);
      left_.remove_prefix(static_cast<size_t>(end - left_.data()));
      extents.push_back(extent);
      if (!Take(',') && Peek() != ')') return std::nullopt;
    }
    return Shape(std::span<const int64_t>(extents));
  }

  const std::string_view text_;
  std::string_view left_;
  const std::string_view name_;
};

absl::Status CutOff(std::string_view name) { return absl::DataLossError(fmt::format("{} is cut off inside its header", name)); }

}  // namespace

absl::StatusOr<NpyHeader> ReadNpyHeader(ByteSource& source, std::string_view name) {
  std::array<char, 8> start;
  TY_ASSIGN_OR_RETURN(const size_t got, source.Read(std::as_writable_bytes(std::span(start))));
  if (!std::string_view(start.data(), got).starts_with(kMagic.substr(0, got))) {
    return absl::InvalidArgumentError(fmt::format("{} is not a numpy file: it does not begin with \"\\x93NUMPY\"", name));
  }
  if (got < start.size()) return CutOff(name);
  const int version = static_cast<uint8_t>(start[6]);
  if (version < 1 || version > 3)
    return absl::UnimplementedError(fmt::format("{} is a numpy file of version {}, expected 1, 2 or 3", name, version));
  std::array<uint8_t, 4> length_bytes{};
  const size_t length_size = version == 1 ? 2 : 4;
  TY_ASSIGN_OR_RETURN(const size_t length_got, source.Read(std::as_writable_bytes(std::span(length_bytes).first(length_size))));
  if (length_got < length_size) return CutOff(name);
  const uint32_t length = length_bytes[0] | length_bytes[1] << 8 | length_bytes[2] << 16 | static_cast<uint32_t>(length_bytes[3]) << 24;
  if (length > kMaxHeader)
    return absl::InvalidArgumentError(fmt::format("{} has a header of {} bytes, at most {} are read", name, length, kMaxHeader));
  std::string text(length, '\0');
  TY_ASSIGN_OR_RETURN(const size_t text_got, source.Read(std::as_writable_bytes(std::span(text))));
  if (text_got < length) return CutOff(name);
  TY_ASSIGN_OR_RETURN(NpyHeader header, HeaderParser(text, name).Parse());
  header.data_begin = start.size() + length_size + length;
  return header;
}

absl::StatusOr<NpyArray> ReadNpy(ByteSource& source, std::string_view name, uint64_t max_bytes) {
  NpyArray array;
  TY_ASSIGN_OR_RETURN(array.header, ReadNpyHeader(source, name));
  const uint64_t wanted = static_cast<uint64_t>(array.header.shape.elements()) * ElementBytes(array.header.type);
  const auto cut_off = [&](uint64_t found) {
    return absl::DataLossError(fmt::format("{} is cut off: its header promises {} of {} ({} bytes), but {} bytes follow it", name,
                                           array.header.shape.ToString(), ElementTypeName(array.header.type), wanted, found));
  };
  if (wanted > max_bytes)
    return absl::InvalidArgumentError(fmt::format("{} has {} bytes of elements, at most {} are read", name, wanted, max_bytes));
  if (wanted > source.AtMostLeft()) return cut_off(source.AtMostLeft());
  TY_ASSIGN_OR_RETURN(array.bytes, ReadAsTheyCome(source, wanted));
  if (array.bytes.size() < wanted) return cut_off(array.bytes.size());
  std::byte more{};
  TY_ASSIGN_OR_RETURN(const size_t rest, source.Read({&more, 1}));
  if (rest > 0) return absl::DataLossError(fmt::format("{} goes on after the {} bytes that its header promises", name, wanted));
  return array;
}

}  // namespace trainyard::engine
