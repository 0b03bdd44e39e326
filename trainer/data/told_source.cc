#include "trainer/data/told_source.h"

#include <utility>

#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/base/wait_notice.h"

namespace trainyard::engine {
namespace {

class ToldSource : public ByteSource {
 public:
  ToldSource(std::unique_ptr<ByteSource> file, std::string name, Clock& clock)
      : file_(std::move(file)), name_(std::move(name)), clock_(clock), bytes_(file_->AtMostLeft()), notice_(clock.Now(), kShownWait) {}

  absl::StatusOr<size_t> Read(std::span<std::byte> out) override {
    TY_ASSIGN_OR_RETURN(const size_t got, file_->Read(out));
    if (bytes_ > 0 && notice_.Due(clock_.Now())) {
      const uint64_t read = bytes_ - file_->AtMostLeft();
      LogInfo("reads {}: {:.0f}% of {} MiB", name_, 100.0 * static_cast<double>(read) / static_cast<double>(bytes_), bytes_ >> 20U);
    }
    return got;
  }
  uint64_t AtMostLeft() const override { return file_->AtMostLeft(); }
  uint64_t AtLeastLeft() const override { return file_->AtLeastLeft(); }

 private:
  const std::unique_ptr<ByteSource> file_;
  const std::string name_;
  Clock& clock_;
  const uint64_t bytes_;
  WaitNotice notice_;
};

}  // namespace

std::unique_ptr<ByteSource> Told(std::unique_ptr<ByteSource> file, std::string name, Clock& clock) {
  return std::make_unique<ToldSource>(std::move(file), std::move(name), clock);
}

}  // namespace trainyard::engine
