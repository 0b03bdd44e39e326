#include "trainer/page/scalar_history.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "trainer/base/log.h"
#include "trainer/report/proto/event.pb.h"
#include "trainer/tfrecord/tfrecord.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostRecordBytes = 64 << 20;  // graphs and pictures are records too

}  // namespace

void ScalarHistory::Refresh() {
  std::error_code error;
  std::vector<std::string> paths;
  fs::directory_iterator it(dir_, error);
  for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with("events.out.tfevents.")) paths.push_back(it->path().string());
  }
  std::ranges::sort(paths);  // the name begins with the time
  for (const std::string& path : paths) ReadOn(path, files_[path]);
}

void ScalarHistory::ReadOn(const std::string& path, Place& place) {
  if (place.damaged) return;
  std::ifstream file(path, std::ios::binary);
  file.seekg(place.offset);
  std::string record;
  while (file) {
    record.resize(kTfRecordHead);
    if (!file.read(record.data(), kTfRecordHead)) return;  // its end, or not all of it is written yet
    absl::StatusOr<uint64_t> length = TfRecordLength(record, kMostRecordBytes);
    if (length.ok()) {
      record.resize(*length + (kTfRecordOverhead - kTfRecordHead));
      if (!file.read(record.data(), static_cast<std::streamsize>(record.size()))) return;
    }
    const absl::StatusOr<std::string_view> data = length.ok() ? TfRecordData(record) : absl::StatusOr<std::string_view>(length.status());
    if (!data.ok() || !TakeEvent(*data)) {
      place.damaged = true;
      LogWarning("{}: its curves end at byte {}: {}", path, place.offset, data.ok() ? "no event" : std::string(data.status().message()));
      return;
    }
    place.offset += static_cast<int64_t>(kTfRecordHead + record.size());
  }
}

bool ScalarHistory::TakeEvent(std::string_view record) {
  tensorboard::Event event;
  if (!event.ParseFromArray(record.data(), static_cast<int>(record.size()))) return false;
  for (const tensorboard::Summary::Value& value : event.summary().value()) {
    if (value.value_case() == tensorboard::Summary::Value::kSimpleValue)
      Add(value.tag(), {.step = event.step(), .value = value.simple_value()});
  }
  return true;
}

void ScalarHistory::Add(std::string_view tag, const CurvePoint& point) {
  auto found = curves_.find(tag);
  if (found == curves_.end()) {
    if (curves_.size() >= kMostCurves) return;
    found = curves_.emplace(tag, Curve()).first;
  }
  Curve& curve = found->second;
  while (!curve.points.empty() && curve.points.back().step >= point.step) curve.points.pop_back();
  if (++curve.left_out < curve.every && !curve.points.empty()) return;
  curve.left_out = 0;
  curve.points.push_back(point);
  if (curve.points.size() < kMostPoints) return;
  size_t kept = 0;
  for (size_t i = 0; i < curve.points.size(); i += 2) curve.points[kept++] = curve.points[i];
  curve.points.resize(kept);
  curve.every *= 2;
}

}  // namespace trainyard::engine
