#include "trainer/report/evaluation_record.h"

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "trainer/base/file.h"
#include "trainer/picture/png.h"

namespace trainyard::engine {

std::string EvaluationRecordJson(const EvaluationRecord& record) {
  using nlohmann::ordered_json;
  ordered_json json = {{"step", record.step}, {"examples", record.matrix.total()}, {"classes", record.classes}};
  for (int label = 0; label < record.matrix.classes(); ++label) {
    ordered_json row = ordered_json::array();
    for (int predicted = 0; predicted < record.matrix.classes(); ++predicted) row.push_back(record.matrix.cell(label, predicted));
    json["confusion"].push_back(std::move(row));
  }
  for (const Mistake& mistake : record.mistakes) {
    const Image& image = mistake.image;
    const absl::StatusOr<std::string> png =
        EncodePng({.height = image.height, .width = image.width, .channels = kRgbChannels, .pixels = image.pixels});
    if (!png.ok()) continue;  // too wide for the format: the page shows the others
    json["samples"].push_back({{"image", absl::Base64Escape(*png)},
                               {"label", record.classes[static_cast<size_t>(mistake.label)]},
                               {"predicted", record.classes[static_cast<size_t>(mistake.predicted)]},
                               {"probability", mistake.probability}});
  }
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

absl::Status WriteEvaluationRecord(const std::string& dir, const EvaluationRecord& record) {
  return ReplaceFile(dir + "/evaluation.json", EvaluationRecordJson(record));
}

}  // namespace trainyard::engine
