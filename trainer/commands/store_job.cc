#include "trainer/commands/store_job.h"

#include <fmt/format.h>

#include "trainer/commands/find_formats.h"

namespace trainyard::engine {
namespace {

bool AreNumbers(const std::vector<std::string>& classes) {
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] != std::to_string(i)) return false;
  }
  return true;
}

std::string ClassesText(const std::vector<std::string>& classes) {
  std::string list;
  for (const std::string& name : classes) list += (list.empty() ? "" : ", ") + YamlText(name);
  return fmt::format(", classes: [{}]", list);
}

std::string LossOf(const DataConfig& data) {
  if (data.format == DataConfig::Format::kCsv) {
    return "a store has no columns: a model that learns from it predicts examples of numbers that are scaled as in the store";
  }
  if (data.format == DataConfig::Format::kImages) {
    return "a store has no fit: a model that learns from it predicts pictures of its own size, and others with --resize";
  }
  return "";
}

}  // namespace

std::string StoreJobText(const std::string& dir, const DataConfig& data, const std::vector<std::string>& classes) {
  std::string text = fmt::format("in a job file: data: {{format: store, dir: {}, train: {{}}{}{}}}\n", YamlText(dir),
                                 data.eval ? ", eval: {}" : "", AreNumbers(classes) ? "" : ClassesText(classes));
  if (const std::string loss = LossOf(data); !loss.empty()) text += fmt::format("note: {}\n", loss);
  return text;
}

}  // namespace trainyard::engine
