#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "trainer/predict/evaluate_model.h"
#include "trainer/report/number_text.h"

namespace trainyard::engine {
namespace {

using nlohmann::ordered_json;

constexpr int kMostColumns = 20;  // of a matrix that is printed as one
constexpr size_t kMostMistakes = 20;
constexpr size_t kWidestName = 24;
constexpr size_t kWidestHead = 10;     // of a column of the matrix
constexpr size_t kRowNumberWidth = 3;  // of a row's number, with the blank behind it

std::string NumberText(const std::optional<double>& number) { return number ? fmt::format("{:.4f}", *number) : "-"; }
ordered_json NumberJson(const std::optional<double>& number) { return number ? ordered_json(*number) : ordered_json(); }

size_t WidthOf(const std::vector<std::string>& names) {
  size_t width = 5;
  for (const std::string& name : names) width = std::max(width, std::min(name.size(), kWidestName));
  return width;
}

std::string ClassTable(const ConfusionMatrix& matrix, const std::vector<std::string>& names) {
  const size_t width = WidthOf(names);
  std::string text = fmt::format("{:<{}}  precision  recall      F1  examples\n", "class", width);
  for (int label = 0; label < matrix.classes(); ++label) {
    const ClassScore score = matrix.Score(label);
    text += fmt::format("{:<{}}  {:>9}  {:>6}  {:>6}  {:>8}\n", names[label], width, NumberText(score.precision), NumberText(score.recall),
                        NumberText(score.f1), score.support);
  }
  const MacroScore macro = matrix.Macro();
  return text + fmt::format("{:<{}}  {:>9.4f}  {:>6.4f}  {:>6.4f}  {:>8}\n", "mean", width, macro.precision, macro.recall, macro.f1,
                            matrix.total());
}

// The fewest characters, `cell` or more, that tell the names apart as heads of columns. 0: they
// would be too wide.
size_t HeadWidth(const std::vector<std::string>& names, size_t cell) {
  for (size_t width = cell; width <= std::max(cell, kWidestHead); ++width) {
    std::set<std::string> heads;
    for (const std::string& name : names) heads.insert(fmt::format("{:.{}}", name, width));
    if (heads.size() == names.size()) return width;
  }
  return 0;
}

// The columns' heads are the names, cut where they are long, or numbers where names so cut would be
// alike.
std::string MatrixTable(const ConfusionMatrix& matrix, const std::vector<std::string>& names) {
  const size_t width = WidthOf(names);
  size_t cell = 4;
  for (int label = 0; label < matrix.classes(); ++label) cell = std::max(cell, fmt::formatted_size("{}", matrix.Score(label).support));
  const size_t head = HeadWidth(names, cell);
  const bool numbered = head == 0;
  cell = std::max(cell, head);
  const std::string indent(width + (numbered ? kRowNumberWidth : 0), ' ');
  std::string text = fmt::format("{:<{}}  predicted\n{}", "class", indent.size(), indent);
  for (int label = 0; label < matrix.classes(); ++label) {
    text += fmt::format("  {:>{}.{}}", numbered ? std::to_string(label) : names[label], cell, cell);
  }
  text += "\n";
  for (int label = 0; label < matrix.classes(); ++label) {
    if (numbered) text += fmt::format("{:>{}} ", label, kRowNumberWidth - 1);
    text += fmt::format("{:<{}}", names[label], width);
    for (int predicted = 0; predicted < matrix.classes(); ++predicted) text += fmt::format("  {:>{}}", matrix.cell(label, predicted), cell);
    text += "\n";
  }
  return text;
}

struct Mistake {
  int label;
  int predicted;
  int64_t examples;
};

// The most frequent ones first.
std::string MistakeTable(const ConfusionMatrix& matrix, const std::vector<std::string>& names) {
  std::vector<Mistake> mistakes;
  for (int label = 0; label < matrix.classes(); ++label) {
    for (int predicted = 0; predicted < matrix.classes(); ++predicted) {
      if (label != predicted && matrix.cell(label, predicted) > 0) mistakes.push_back({label, predicted, matrix.cell(label, predicted)});
    }
  }
  std::ranges::sort(mistakes, [](const Mistake& a, const Mistake& b) {
    return std::tie(b.examples, a.label, a.predicted) < std::tie(a.examples, b.label, b.predicted);
  });
  const size_t width = WidthOf(names);
  std::string text = fmt::format("{:<{}}  {:<{}}  examples\n", "class", width, "predicted", std::max<size_t>(9, width));
  for (size_t i = 0; i < std::min(mistakes.size(), kMostMistakes); ++i) {
    text += fmt::format("{:<{}}  {:<{}}  {:>8}\n", names[mistakes[i].label], width, names[mistakes[i].predicted],
                        std::max<size_t>(9, width), mistakes[i].examples);
  }
  if (mistakes.size() > kMostMistakes) text += fmt::format("… {} in all; --json has the whole matrix\n", mistakes.size());
  return text;
}

}  // namespace

std::string EvaluationText(const TrainedModel& model, const ModelEvaluation& evaluation) {
  const ModelScore& score = evaluation.score;
  std::string text =
      fmt::format("checkpoint  {} (step {})\ndata        {}, {} examples\n", model.checkpoint, model.step, evaluation.data, score.examples);
  for (const auto& [name, value] : MetricsOf(model.description.training.model, score))
    text += fmt::format("{:<10}  {}\n", name, MetricText(value));
  if (const std::optional<NumberScore>& numbers = evaluation.numbers) {
    text += fmt::format("mae         {:.6g}\nrmse        {:.6g}\n", numbers->mean_absolute, numbers->root_mean_square);
    text += fmt::format("r2          {}\n", NumberText(numbers->r2));
  }
  if (!evaluation.matrix) return text;
  const std::vector<std::string>& names = model.description.classes;
  text += "\n" + ClassTable(*evaluation.matrix, names);
  if (evaluation.matrix->has_cells()) {
    const bool fits = evaluation.matrix->classes() <= kMostColumns;
    text += "\n" + (fits ? MatrixTable(*evaluation.matrix, names) : MistakeTable(*evaluation.matrix, names));
  }
  return text;
}

std::string EvaluationJson(const TrainedModel& model, const ModelEvaluation& evaluation) {
  const ModelScore& score = evaluation.score;
  ordered_json text = {{"checkpoint", model.checkpoint}, {"step", model.step}, {"data", evaluation.data}, {"examples", score.examples}};
  for (const auto& [name, value] : MetricsOf(model.description.training.model, score)) text[name] = value;
  if (const std::optional<NumberScore>& numbers = evaluation.numbers) {
    text["meanAbsoluteError"] = numbers->mean_absolute;
    text["rootMeanSquaredError"] = numbers->root_mean_square;
    text["r2"] = NumberJson(numbers->r2);
  }
  if (evaluation.matrix) {
    const ConfusionMatrix& matrix = *evaluation.matrix;
    for (int label = 0; label < matrix.classes(); ++label) {
      const ClassScore of_class = matrix.Score(label);
      text["classes"].push_back({{"class", model.description.classes[label]},
                                 {"examples", of_class.support},
                                 {"predicted", of_class.predicted},
                                 {"precision", NumberJson(of_class.precision)},
                                 {"recall", NumberJson(of_class.recall)},
                                 {"f1", NumberJson(of_class.f1)}});
    }
    const MacroScore macro = matrix.Macro();
    text["mean"] = {{"precision", macro.precision}, {"recall", macro.recall}, {"f1", macro.f1}};
    for (int label = 0; matrix.has_cells() && label < matrix.classes(); ++label) {
      ordered_json row = ordered_json::array();
      for (int predicted = 0; predicted < matrix.classes(); ++predicted) row.push_back(matrix.cell(label, predicted));
      text["confusion"].push_back(std::move(row));
    }
  }
  return text.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace trainyard::engine
