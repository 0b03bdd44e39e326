#include "trainer/job/csv_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trainer/job/data_json.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// The errors of data with these fields beside those that a CSV set needs.
std::string CsvErrorsOf(const char* fields, DataConfig* read = nullptr) {
  json data = json::parse(R"({"format": "csv", "label": "kind", "train": {"files": ["a.csv"]}})");
  data.update(json::parse(fields));
  FieldErrors errors;
  const DataConfig config = ParseData(data, "data", errors);
  if (read != nullptr) *read = config;
  return errors.empty() ? "" : std::string(errors.ToStatus("job").message());
}

TEST(CsvJson, ColumnsAreReadByNameOrNumber) {
  DataConfig data;
  EXPECT_EQ(
      CsvErrorsOf(R"({"label": 4, "delimiter": ";", "decimal": "comma", "header": false, "missing": "mean", "evalFraction": 0.25, "seed": 3,
                            "standardizeLabel": true, "columns": [{"name": 0}, {"name": "x", "type": "category", "missing": 0.5}]})",
                  &data),
      "");
  EXPECT_EQ(data.csv.label, (ColumnRef{.name = "4", .number = 4}));
  EXPECT_EQ(data.csv.delimiter, ';');
  EXPECT_EQ(data.csv.decimal, ',');
  EXPECT_FALSE(data.csv.header);
  EXPECT_TRUE(data.csv.standardize_label);
  ASSERT_EQ(data.csv.columns.size(), 2);
  EXPECT_EQ(data.csv.columns[0].column.number, 0);
  EXPECT_EQ(data.csv.columns[0].missing.kind, MissingRule::Kind::kMean);
  EXPECT_EQ(data.csv.columns[1].type, ColumnType::kCategory);
  EXPECT_EQ(data.csv.columns[1].missing.value, "0.5");
  EXPECT_EQ(data.eval_fraction, 0.25);
  EXPECT_EQ(data.split_seed, 3);
  EXPECT_EQ(data.eval, data.train);
}

TEST(CsvJson, MistakesAreToldAtTheirFields) {
  EXPECT_THAT(CsvErrorsOf(R"({"label": null})"), HasSubstr("data.label: missing, expected a column's name in the header, or its number"));
  EXPECT_THAT(CsvErrorsOf(R"({"delimiter": ";;"})"), HasSubstr("data.delimiter: found \";;\", expected one ASCII character"));
  EXPECT_THAT(CsvErrorsOf(R"({"delimiter": " "})"), HasSubstr("but no blank, quote or line end"));
  EXPECT_THAT(CsvErrorsOf(R"({"decimal": ","})"), HasSubstr("data.decimal: found \",\", expected one of "));
  EXPECT_THAT(CsvErrorsOf(R"({"columns": []})"), HasSubstr("data.columns: found an empty list, expected a list such as"));
  EXPECT_THAT(CsvErrorsOf(R"({"columns": [{"name": "a"}, {"name": "a"}]})"), HasSubstr("data.columns[1].name: found again"));
  EXPECT_THAT(CsvErrorsOf(R"({"columns": [{"name": "a", "type": "text"}]})"), HasSubstr("data.columns[0].type: found \"text\", expected"));
  EXPECT_THAT(CsvErrorsOf(R"({"columns": [{"name": "a", "kind": 1}]})"), HasSubstr("data.columns[0].kind: unknown field"));
  EXPECT_THAT(CsvErrorsOf(R"({"missing": []})"), HasSubstr("data.missing: found an empty list, expected error, mean, or the value"));
  EXPECT_THAT(CsvErrorsOf(R"({"evalFraction": 1})"), HasSubstr("data.evalFraction: found 1"));
  EXPECT_THAT(CsvErrorsOf(R"({"evalFraction": 0.2, "eval": {"files": ["b.csv"]}})"), HasSubstr("data.evalFraction: found beside eval"));
}

TEST(CsvJson, FittedColumnsComeBackToTheBit) {
  const std::vector<FittedColumn> columns = {
      {.column = {.name = "age"}, .mean = 1.0 / 3, .deviation = 2.0 / 7, .missing = "0.3333333333333333"},
      {.column = {.name = "3", .number = 3}, .type = ColumnType::kCategory, .categories = {"", "a", "ü"}}};
  FieldErrors errors;
  EXPECT_EQ(ParseFittedColumns(json::parse(FittedColumnsJson(columns).dump()), "columns", errors), columns);
  EXPECT_TRUE(errors.empty());
}

TEST(CsvJson, HostileFittedColumnsAreRefused) {
  for (const char* text : {"{}", "[]", "[1]", R"([{"name": "a"}])", R"([{"name": "a", "type": "number", "mean": 1, "std": 0}])",
                           R"([{"name": "a", "type": "category", "categories": ["b", "a"]}])", R"([{"name": "a", "type": "category"}])"}) {
    FieldErrors errors;
    ParseFittedColumns(json::parse(text), "columns", errors);
    EXPECT_FALSE(errors.empty()) << text;
  }
}

}  // namespace
}  // namespace trainyard::engine
