#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "trainer/base/counted.h"
#include "trainer/base/status_macros.h"
#include "trainer/commands/column_look.h"
#include "trainer/commands/find_formats.h"
#include "trainer/commands/label_column.h"
#include "trainer/data/csv/csv_dataset.h"
#include "trainer/data/csv/csv_delimiter.h"
#include "trainer/data/csv/csv_table.h"
#include "trainer/data/csv/fit_columns.h"
#include "trainer/data/text/text_dataset.h"
#include "trainer/data/utf8.h"

namespace trainyard::engine {
namespace {

constexpr size_t kMostLabelNumbers = 20;  // whole numbers that are taken for classes
constexpr size_t kMostTextBytes = size_t{1} << 30;
constexpr std::string_view kSeveralFiles = "; train.files takes several files of the same kind";

// Those that end so, packed by gzip or not.
std::vector<std::string> Named(const FolderContent& content, std::string_view extension) {
  std::vector<std::string> files;
  for (const std::string& file : content.files) {
    const std::string name = absl::AsciiStrToLower(file);
    if (name.ends_with(extension) || name.ends_with(std::string(extension) + ".gz")) files.push_back(file);
  }
  return files;
}

// A first row without a number, above rows that have some, is a header.
bool HasHeader(const CsvTable& table) {
  bool numbers_below = false;
  for (size_t i = 0; i < table.columns(); ++i) {
    if (LooksLikeNumber(table.Cell(0, i))) return false;
    numbers_below = numbers_below || (table.rows() > 1 && LooksLikeNumber(table.Cell(1, i)));
  }
  return numbers_below;
}

std::string ColumnText(const CsvTable& table, size_t column) {
  const ColumnRef ref = RefOfColumn(table.header(), column);
  return ref.number >= 0 ? ref.name : YamlText(ref.name);
}

// Why a column below a header goes by its number, as a comment. "": it has a name of its own.
std::string NumberComment(const CsvTable& table, size_t column) {
  if (table.header().empty() || RefOfColumn(table.header(), column).number < 0) return "";
  const std::string& name = table.header()[column];
  return name.empty() ? "  # has no name" : fmt::format("  # one of several {}", YamlText(name));
}

// Why the job's model does not see a column; "": it does.
std::string WhyLeftOut(const ColumnLook& look) {
  if (look.is_blank()) return "it is empty";
  if (look.is_number()) return "";
  if (look.has_too_many()) return fmt::format("it has more than {} different texts", ColumnLook::kMostCategories);
  return look.is_all_different() ? "each of its texts is there once" : "";
}

// Whether the other file has empty cells in a column. `look` is that of the training's.
bool IsMissingIn(const CsvTable& other, const std::string& name, const ColumnLook& look, char decimal) {
  const auto found = std::ranges::find(other.header(), name);
  if (found == other.header().end()) return false;
  const ColumnLook there = LookAt(other, static_cast<size_t>(found - other.header().begin()), decimal);
  return there.empty || (look.is_number() && there.words > 0);
}

// The columns beside the label, as options and as lines of the job file. `other` is the file for
// evaluation or prediction. It gives the columns that are left out, and why.
std::vector<std::string> AddColumns(const CsvTable& table, size_t label, const std::optional<CsvTable>& other, CsvOptions& options,
                                    FoundData& found) {
  std::vector<std::string> all_left_out;
  found.data.emplace_back("columns:");
  for (size_t i = 0; i < table.columns(); ++i) {
    if (i == label) continue;
    const ColumnLook look = LookAt(table, i, options.decimal);
    const std::string name = ColumnText(table, i);
    const std::string reason = WhyLeftOut(look);
    const bool left_out = !reason.empty();
    if (const std::string doubt = look.Doubt(); !doubt.empty()) {
      found.notes.push_back(fmt::format("column {} has {}: it is {}", name, doubt, left_out ? "left out" : "taken for categories"));
      found.data.push_back(fmt::format("  # {} has {}", name, doubt));
    }
    if (left_out) {
      all_left_out.push_back(fmt::format("{} is left out: {}", name, reason));
      found.data.push_back("  # " + all_left_out.back());
      continue;
    }
    const bool missing = look.has_missing() || (other && IsMissingIn(*other, table.header()[i], look, options.decimal));
    options.columns.push_back({.column = RefOfColumn(table.header(), i),
                               .type = look.is_number() ? ColumnType::kNumber : ColumnType::kCategory,
                               .missing = {.kind = missing ? MissingRule::Kind::kMean : MissingRule::Kind::kError}});
    found.data.push_back(fmt::format("  - {{name: {}, type: {}{}}}{}", name, look.is_number() ? "number" : "category",
                                     missing ? ", missing: mean" : "", NumberComment(table, i)));
  }
  return all_left_out;
}

// Of rows that hardly share a label nothing is learnt.
absl::Status CheckClasses(const CsvTable& table, size_t label, const ColumnLook& labels, const CsvFit& fit) {
  const auto classes = static_cast<int64_t>(fit.classes.size());
  const bool all_numbers = labels.is_number() && labels.words == 0;
  if (all_numbers || labels.cells < ColumnLook::kFewestUnlike || classes <= table.rows() / 2) return absl::OkStatus();
  if (labels.is_number()) {
    return absl::InvalidArgumentError(fmt::format("{}: the label {} has {} and {} for none, such as NA; remove the rows without a label",
                                                  table.name(), ColumnText(table, label), Counted(labels.numbers, "number"),
                                                  Counted(labels.words, "word")));
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: the label {} has {} different values in {}, such as \"{}\": too many for classes, and no numbers. Write numbers "
                  "without units, signs of a currency and marks of thousands, or name another column by --label",
                  table.name(), ColumnText(table, label), classes, Counted(table.rows(), "row"), labels.first_text));
}

// The file for evaluation; nothing: there is no such file, or files have no headers.
absl::StatusOr<std::optional<CsvTable>> ReadOther(const std::string& dir, const std::string& eval, const CsvOptions& options) {
  if (eval.empty() || !options.header) return std::nullopt;
  return ReadCsvTable({(std::filesystem::path(dir) / eval).string()}, options);
}

// Notes a file for evaluation that lacks a column. Gives whether it is one.
bool IsEvaluationOf(const CsvTable& table, size_t label, const std::string& eval, const std::vector<std::string>& other_header,
                    FoundData& found) {
  const std::vector<std::string> lacking = LackingIn(other_header, table.header());
  if (lacking.empty()) return !eval.empty();
  const std::string note = fmt::format("{} has no column {}: it is no evaluation", YamlText(eval), YamlText(lacking[0]));
  const bool is_label = std::ranges::find(lacking, table.header()[label]) != lacking.end();
  found.notes.push_back(note + (is_label ? "; `predict` gives the labels of its rows" : ""));
  found.data.push_back("# " + note);
  return false;
}

std::string DelimiterText(char delimiter) { return delimiter == '\t' ? "\"\\t\"" : fmt::format("\"{}\"", delimiter); }

}  // namespace

absl::StatusOr<std::optional<FoundData>> FindCsv(const FolderContent& content) {
  std::vector<std::string> files = Named(content, ".csv");
  const bool tabs = files.empty();
  if (tabs) files = Named(content, ".tsv");
  if (files.empty()) return std::nullopt;
  SortTrainFirst(files);
  const std::string eval = EvaluationAmong(files);
  CsvFiles source{.paths = {(std::filesystem::path(content.dir) / files[0]).string()}, .options = {.header = false}};
  TY_ASSIGN_OR_RETURN(source.options.delimiter, DelimiterOf(source.paths[0], tabs ? '\t' : ','));
  const std::string delimiter = DelimiterText(source.options.delimiter);
  absl::StatusOr<CsvTable> read = ReadCsvTable(source.paths, source.options);
  if (!read.ok()) return WithContext(read.status(), fmt::format("with the delimiter {}", delimiter));
  CsvTable& table = *read;
  if (table.rows() < 2) {
    return absl::InvalidArgumentError(
        fmt::format("{} has {}, expected a header with rows below it, or several rows", table.name(), Counted(table.rows(), "row")));
  }
  source.options.header = HasHeader(table);
  source.options.decimal = DecimalOf(table);
  if (source.options.header) table.TakeHeader();
  TY_ASSIGN_OR_RETURN(const std::optional<CsvTable> other, ReadOther(content.dir, eval, source.options));
  const std::vector<std::string> other_header = other ? other->header() : std::vector<std::string>();
  TY_ASSIGN_OR_RETURN(const size_t label, FindLabelColumn(table, content.label, other_header));
  const ColumnLook labels = LookAt(table, label, source.options.decimal);
  const bool has_classes = !labels.is_number() || labels.words > 0 || (labels.whole && labels.different.size() <= kMostLabelNumbers);

  source.options.label = RefOfColumn(table.header(), label);
  FoundData found{.examples = table.rows()};
  found.data = {"format: csv", fmt::format("train: {{files: [{}]}}", YamlText(files[0]))};
  NoteLeftOut(files, eval, kSeveralFiles, found);
  const bool has_evaluation = IsEvaluationOf(table, label, eval, other_header, found);
  found.data.push_back(has_evaluation ? fmt::format("eval: {{files: [{}]}}", YamlText(eval)) : "evalFraction: 0.2");
  if (source.options.delimiter != ',') found.data.push_back("delimiter: " + delimiter);
  if (source.options.decimal != '.') found.data.emplace_back("decimal: comma");
  if (!source.options.header) found.data.emplace_back("header: false");
  if (const std::string doubt = labels.Doubt(); !doubt.empty()) {
    found.notes.push_back(fmt::format("the label {} has {}: its values are taken for classes", ColumnText(table, label), doubt));
    found.data.push_back(fmt::format("# {} has {}", ColumnText(table, label), doubt));
  }
  found.data.push_back(
      fmt::format("label: {}{}{}", ColumnText(table, label), NumberComment(table, label), has_classes ? "" : "  # a number"));
  if (!has_classes) found.data.emplace_back("standardizeLabel: true  # the loss has no unit; predictions have the label's");
  const std::vector<std::string> left_out = AddColumns(table, label, other, source.options, found);
  const std::vector<std::string>& reasons = found.notes.empty() ? left_out : found.notes;
  if (source.options.columns.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{} has no column beside the label {} that a model could learn from; its delimiter is {}{}{}", table.name(),
                    ColumnText(table, label), delimiter, reasons.empty() ? "" : "; ", NamesText(reasons)));
  }
  if (!has_evaluation) source.eval_fraction = 0.2;
  TY_ASSIGN_OR_RETURN(const CsvFit fit, FitCsv(table, source, has_classes));
  TY_RETURN_IF_ERROR(CheckClasses(table, label, labels, fit));
  found.input = Shape{WidthOf(fit.columns)};
  found.classes = static_cast<int64_t>(fit.classes.size());
  found.summary = has_classes ? fmt::format("{} of {} ({})", Counted(table.rows(), "row"), Counted(found.classes, "class", "classes"),
                                            NamesText(fit.classes))
                              : fmt::format("{} with a number to learn", Counted(table.rows(), "row"));
  return found;
}

absl::StatusOr<std::optional<FoundData>> FindText(const FolderContent& content) {
  std::vector<std::string> files = Named(content, ".txt");
  if (files.empty()) return std::nullopt;
  SortTrainFirst(files);
  const std::string eval = EvaluationAmong(files);
  const std::string path = (std::filesystem::path(content.dir) / files[0]).string();
  TY_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMostTextBytes));
  std::set<std::string_view> characters;
  int64_t count = 0;
  for (std::string_view rest = text; !rest.empty(); ++count) {
    const size_t bytes = CodePointBytes(rest);
    if (bytes == 0)
      return absl::InvalidArgumentError(
          fmt::format("{} is not UTF-8: found the byte 0x{:02x} after {} characters", path, static_cast<unsigned char>(rest[0]), count));
    characters.insert(rest.substr(0, bytes));
    rest.remove_prefix(bytes);
  }
  constexpr int64_t kFewest = 2000;
  if (count < kFewest)
    return absl::InvalidArgumentError(fmt::format("{} has {} characters, expected {} or more to learn from", path, count, kFewest));
  FoundData found{
      .summary = fmt::format("{} characters of text, {} different ones", count, characters.size()), .data = {}, .examples = count};
  found.input = Shape{count < 50'000 ? 10 : 50};
  found.vocabulary = static_cast<int64_t>(characters.size()) + 1;  // and one for those that only the evaluation has
  const std::string file = YamlText(files[0]);
  found.data = {"format: text", "tokens: characters"};
  if (eval.empty()) {
    found.data.push_back(fmt::format("train: {{files: [{}], fraction: [0, 0.9]}}", file));
    found.data.push_back(fmt::format("eval: {{files: [{}], fraction: [0.9, 1]}}", file));
  } else {
    found.data.push_back(fmt::format("train: {{files: [{}]}}", file));
    found.data.push_back(fmt::format("eval: {{files: [{}]}}", YamlText(eval)));
  }
  NoteLeftOut(files, eval, kSeveralFiles, found);
  return found;
}

}  // namespace trainyard::engine
