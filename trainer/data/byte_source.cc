#include "trainer/data/byte_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "trainer/base/check.h"
#include "trainer/base/file.h"
#include "trainer/base/owned_fd.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

constexpr size_t kChunk = 64 << 10;
constexpr uint64_t kFirstGrant = 16 << 20;
// Deflate packs no more than this many bytes into one (RFC 1951: 258 bytes in two bits at best).
constexpr uint64_t kMostInflation = 1032;

class FileSource : public ByteSource {
 public:
  FileSource(OwnedFd fd, std::string path, uint64_t size) : fd_(std::move(fd)), path_(std::move(path)), left_(size) {}

  absl::StatusOr<size_t> Read(std::span<std::byte> out) override {
    size_t done = 0;
    while (done < out.size()) {
      ssize_t got = ::read(fd_.get(), out.data() + done, out.size() - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return FileError(errno, "read", path_);
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    left_ -= std::min<uint64_t>(left_, done);
    return done;
  }
  uint64_t AtMostLeft() const override { return left_; }
  uint64_t AtLeastLeft() const override { return left_; }

 private:
  const OwnedFd fd_;
  const std::string path_;
  uint64_t left_;
};

class StringSource : public ByteSource {
 public:
  explicit StringSource(std::string_view bytes) : bytes_(bytes) {}

  absl::StatusOr<size_t> Read(std::span<std::byte> out) override {
    const size_t count = std::min(out.size(), bytes_.size());
    if (count > 0) std::memcpy(out.data(), bytes_.data(), count);
    bytes_.remove_prefix(count);
    return count;
  }
  uint64_t AtMostLeft() const override { return bytes_.size(); }
  uint64_t AtLeastLeft() const override { return bytes_.size(); }

 private:
  std::string_view bytes_;
};

// Gives `head` first: what was read to look at.
class PrefixedSource : public ByteSource {
 public:
  PrefixedSource(std::string head, std::unique_ptr<ByteSource> rest) : head_(std::move(head)), rest_(std::move(rest)) {}

  absl::StatusOr<size_t> Read(std::span<std::byte> out) override {
    const size_t count = std::min(out.size(), head_.size() - taken_);
    if (count > 0) std::memcpy(out.data(), head_.data() + taken_, count);
    taken_ += count;
    TY_ASSIGN_OR_RETURN(size_t more, rest_->Read(out.subspan(count)));
    return count + more;
  }
  uint64_t AtMostLeft() const override { return head_.size() - taken_ + rest_->AtMostLeft(); }
  uint64_t AtLeastLeft() const override { return head_.size() - taken_ + rest_->AtLeastLeft(); }

 private:
  const std::string head_;
  std::unique_ptr<ByteSource> rest_;
  size_t taken_ = 0;
};

class GzipSource : public ByteSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> inner, std::string name) : inner_(std::move(inner)), name_(std::move(name)), packed_(kChunk) {
    constexpr int kGzipOnly = 16;
    TY_CHECK(inflateInit2(&stream_, MAX_WBITS + kGzipOnly) == Z_OK);
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  absl::StatusOr<size_t> Read(std::span<std::byte> out) override {
    size_t done = 0;
    while (done < out.size() && !ended_) {
      if (stream_.avail_in == 0) {
        TY_ASSIGN_OR_RETURN(size_t got, inner_->Read(packed_));
        if (got == 0 && member_ended_) {
          ended_ = true;
          break;
        }
        if (got == 0) return absl::DataLossError(fmt::format("{} is cut off: its gzip stream does not end", name_));
        stream_.next_in = reinterpret_cast<Bytef*>(packed_.data());
        stream_.avail_in = static_cast<uInt>(got);
      }
      // A further member follows the end of a member (RFC 1952).
      if (member_ended_) {
        inflateReset(&stream_);
        member_ended_ = false;
      }
      const auto room = static_cast<uInt>(std::min<size_t>(out.size() - done, std::numeric_limits<uInt>::max()));
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + done);
      stream_.avail_out = room;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      done += room - stream_.avail_out;
      if (result == Z_STREAM_END) {
        member_ended_ = true;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        return absl::DataLossError(
            fmt::format("{} is damaged: {}", name_, stream_.msg != nullptr ? stream_.msg : "its gzip stream is wrong"));
      }
    }
    return done;
  }
  uint64_t AtMostLeft() const override { return ended_ ? 0 : (inner_->AtMostLeft() + stream_.avail_in + 1) * kMostInflation; }

 private:
  std::unique_ptr<ByteSource> inner_;
  const std::string name_;
  std::vector<std::byte> packed_;
  z_stream stream_{};
  bool member_ended_ = false;
  bool ended_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenFileSource(const std::string& path) {
  OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return FileError(errno, "open", path);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return FileError(errno, "read", path);
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(fmt::format("cannot read {}: it is not a regular file", path));
  return std::make_unique<FileSource>(std::move(fd), path, static_cast<uint64_t>(info.st_size));
}

std::unique_ptr<ByteSource> MemorySource(std::string_view bytes) { return std::make_unique<StringSource>(bytes); }

absl::StatusOr<std::unique_ptr<ByteSource>> Unpacked(std::unique_ptr<ByteSource> inner, std::string name) {
  std::string head(2, '\0');
  TY_ASSIGN_OR_RETURN(size_t got, inner->Read(std::as_writable_bytes(std::span(head))));
  head.resize(got);
  const bool is_gzip = head == "\x1f\x8b";
  auto whole = std::make_unique<PrefixedSource>(std::move(head), std::move(inner));
  if (!is_gzip) return whole;
  return std::make_unique<GzipSource>(std::move(whole), std::move(name));
}

absl::StatusOr<Buffer> ReadAsTheyCome(ByteSource& source, uint64_t wanted) {
  Buffer bytes(std::min(wanted, std::max<uint64_t>(source.AtLeastLeft(), kFirstGrant)));
  size_t done = 0;
  while (true) {
    TY_ASSIGN_OR_RETURN(const size_t got, source.Read(bytes.bytes().subspan(done)));
    done += got;
    if (done == wanted) return bytes;
    if (done < bytes.size()) break;
    Buffer larger(std::min<uint64_t>(wanted, 2 * bytes.size()));
    std::memcpy(larger.data(), bytes.data(), done);
    bytes = std::move(larger);
  }
  Buffer shorter(done);
  if (done > 0) std::memcpy(shorter.data(), bytes.data(), done);
  return shorter;
}

absl::StatusOr<uint64_t> Skip(ByteSource& source, uint64_t count) {
  std::vector<std::byte> chunk(std::min<uint64_t>(count, kChunk));
  uint64_t skipped = 0;
  while (skipped < count) {
    TY_ASSIGN_OR_RETURN(size_t got, source.Read(std::span(chunk).first(std::min<uint64_t>(chunk.size(), count - skipped))));
    if (got == 0) break;
    skipped += got;
  }
  return skipped;
}

}  // namespace trainyard::engine
