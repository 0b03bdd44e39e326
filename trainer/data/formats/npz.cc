#include "trainer/data/formats/npz.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zip.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

constexpr zip_int64_t kMostNames = 20;
// Deflate packs no more than this many bytes into one (RFC 1951).
constexpr uint64_t kMostInflation = 1032;

std::string ErrorText(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

struct CloseArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseMember {
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};
using Archive = std::unique_ptr<zip_t, CloseArchive>;

class MemberSource final : public ByteSource {
 public:
  MemberSource(Archive archive, zip_file_t* member, std::string name, uint64_t most)
      : archive_(std::move(archive)), member_(member), name_(std::move(name)), left_(most) {}

  absl::StatusOr<size_t> Read(std::span<std::byte> out) override {
    size_t done = 0;
    while (done < out.size()) {
      const zip_int64_t got = zip_fread(member_.get(), out.data() + done, out.size() - done);
      if (got < 0) {
        return absl::DataLossError(fmt::format("{} is damaged: {}", name_, zip_error_strerror(zip_file_get_error(member_.get()))));
      }
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    left_ -= std::min<uint64_t>(left_, done);
    return done;
  }
  uint64_t AtMostLeft() const override { return left_; }

 private:
  const Archive archive_;
  const std::unique_ptr<zip_file_t, CloseMember> member_;
  const std::string name_;
  uint64_t left_;
};

std::string NamesOf(zip_t* archive) {
  std::vector<std::string> names;
  const zip_int64_t entries = zip_get_num_entries(archive, 0);
  for (zip_int64_t i = 0; i < std::min(entries, kMostNames); ++i) {
    if (const char* name = zip_get_name(archive, static_cast<zip_uint64_t>(i), 0)) names.emplace_back(std::string_view(name).substr(0, 64));
  }
  return names.empty() ? "none" : fmt::format("{}{}", fmt::join(names, ", "), entries > kMostNames ? " and more" : "");
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenArray(Archive archive, const std::string& name, std::string_view array) {
  zip_int64_t index = 0;
  if (!array.empty()) {
    index = zip_name_locate(archive.get(), fmt::format("{}.npy", array).c_str(), 0);
    if (index < 0) index = zip_name_locate(archive.get(), std::string(array).c_str(), 0);
  }
  if (index < 0 || index >= zip_get_num_entries(archive.get(), 0)) {
    return absl::NotFoundError(fmt::format("{} has no array \"{}\"; it has {}", name, array, NamesOf(archive.get())));
  }
  zip_stat_t status;
  zip_stat_init(&status);
  zip_file_t* member = nullptr;
  if (zip_stat_index(archive.get(), static_cast<zip_uint64_t>(index), 0, &status) == 0) {
    member = zip_fopen_index(archive.get(), static_cast<zip_uint64_t>(index), 0);
  }
  const std::string member_name = NpzArrayName(name, array);
  if (member == nullptr) {
    return absl::DataLossError(fmt::format("{} cannot be unpacked: {}", member_name, zip_strerror(archive.get())));
  }
  const uint64_t most = std::min<uint64_t>(status.size, (status.comp_size + 1) * kMostInflation);
  return std::make_unique<MemberSource>(std::move(archive), member, member_name, most);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenNpzArray(const std::string& path, std::string_view array) {
  // Opening it says what is wrong with the file itself.
  TY_RETURN_IF_ERROR(OpenFileSource(path).status());
  int code = 0;
  Archive archive(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (!archive) return absl::DataLossError(fmt::format("{} is not an .npz file: {}", path, ErrorText(code)));
  return OpenArray(std::move(archive), path, array);
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenNpzArrayInMemory(std::string_view archive, const std::string& name,
                                                                 std::string_view array) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(archive.data(), archive.size(), /*freep=*/0, &error);
  Archive opened(source == nullptr ? nullptr : zip_open_from_source(source, ZIP_RDONLY, &error));
  if (!opened) {
    const std::string text = zip_error_strerror(&error);
    zip_error_fini(&error);
    if (source != nullptr) zip_source_free(source);
    return absl::DataLossError(fmt::format("{} is not an .npz file: {}", name, text));
  }
  return OpenArray(std::move(opened), name, array);
}

}  // namespace trainyard::engine
