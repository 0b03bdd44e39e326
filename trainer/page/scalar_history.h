// The scalars that a replica wrote for TensorBoard, read back while the file grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/page/curve.h"

namespace trainyard::engine {

// Of one folder of event files (summary_writer.h), which are joined by step as TensorBoard joins
// them: where a step comes again, what was written before for it and for later steps is gone. Has a
// bound on its memory: of a curve with more than kMostPoints every second point goes, and as many
// of those that follow. Not thread-safe.
class ScalarHistory {
 public:
  static constexpr size_t kMostPoints = 1 << 18;
  static constexpr size_t kMostCurves = 64;

  explicit ScalarHistory(std::string dir) : dir_(std::move(dir)) {}

  // Reads what has been appended since the last call. A file that is damaged is read up to there,
  // and told in the log. A folder that is absent has no curves.
  void Refresh();

  struct Curve {
    std::vector<CurvePoint> points;  // steps rise
    int64_t every = 1;               // of the file's points, one of so many is kept
    int64_t left_out = 0;            // since the last one that was
  };
  // By tag.
  const std::map<std::string, Curve, std::less<>>& curves() const { return curves_; }

 private:
  struct Place {
    int64_t offset = 0;
    bool damaged = false;
  };

  void ReadOn(const std::string& path, Place& place);
  bool TakeEvent(std::string_view record);
  void Add(std::string_view tag, const CurvePoint& point);

  const std::string dir_;
  std::map<std::string, Place> files_;  // by path
  std::map<std::string, Curve, std::less<>> curves_;
};

}  // namespace trainyard::engine
