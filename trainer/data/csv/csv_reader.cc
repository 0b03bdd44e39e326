#include "trainer/data/csv/csv_reader.h"

#include <csv.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <string_view>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/counted.h"
#include "trainer/base/status_macros.h"
#include "trainer/data/utf8.h"

namespace trainyard::engine {
namespace {

constexpr size_t kChunkBytes = 64 << 10;
constexpr size_t kMaxCellBytes = 1 << 20;
constexpr size_t kMaxCells = 1 << 16;

}  // namespace

// libcsv is fed bytes and calls back for each cell and row.
struct CsvReader::Parser {
  Parser(std::unique_ptr<ByteSource> bytes, std::string text_name, char delimiter)
      : source(std::move(bytes)), name(std::move(text_name)), chunk(kChunkBytes) {
    TY_CHECK(csv_init(&csv, CSV_STRICT | CSV_STRICT_FINI | CSV_REPALL_NL) == 0);
    csv_set_delim(&csv, static_cast<unsigned char>(delimiter));
  }
  ~Parser() { csv_free(&csv); }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  absl::Status Wrong(int64_t at_line, std::string_view what) const {
    return absl::InvalidArgumentError(fmt::format("{}:{}: {}", name, at_line, what));
  }

  void Cell(std::string_view cell) {
    if (row.cells.empty()) row.line = line;
    line += std::ranges::count(cell, '\n');
    if (!status.ok()) return;
    if (!IsUtf8(cell)) status = Wrong(row.line, "the text is not UTF-8; convert it, as by iconv -t UTF-8");
    if (cell.find('\0') != std::string_view::npos) status = Wrong(row.line, "the text has zero bytes: it is no CSV, or UTF-16; convert it");
    if (row.cells.size() >= kMaxCells) {
      status = Wrong(row.line, fmt::format("the row has more than {} cells", kMaxCells));
      return;
    }
    row.cells.emplace_back(cell);
  }

  void EndOfRow(int by) {
    if (!row.cells.empty()) {
      if (width == 0) width = row.cells.size();
      if (status.ok() && row.cells.size() != width) {
        status = Wrong(row.line, fmt::format("the row has {}, those before it have {}", Counted(std::ssize(row.cells), "cell"), width));
      }
      if (status.ok()) rows.push_back(std::exchange(row, {}));
      row.cells.clear();
    }
    if (by == '\n') ++line;
  }

  static void OnCell(void* cell, size_t bytes, void* parser) {
    static_cast<Parser*>(parser)->Cell(bytes == 0 ? std::string_view() : std::string_view(static_cast<const char*>(cell), bytes));
  }
  static void OnRow(int by, void* parser) { static_cast<Parser*>(parser)->EndOfRow(by); }

  // The next bytes of the source; its rows are appended.
  absl::Status Feed() {
    TY_ASSIGN_OR_RETURN(const size_t got, source->Read(std::as_writable_bytes(std::span(chunk))));
    std::string_view text(chunk.data(), got);
    if (std::exchange(at_start, false)) {
      if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) return Wrong(1, "the text is UTF-16, expected UTF-8; convert it");
      if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    }
    if (csv_parse(&csv, text.data(), text.size(), &OnCell, &OnRow, this) != text.size()) return BadQuote();
    if (csv_get_buffer_size(&csv) > kMaxCellBytes) {
      return Wrong(line, fmt::format("a cell has more than {} bytes; is a quote not closed?", kMaxCellBytes));
    }
    if (got < chunk.size()) {
      at_end = true;
      if (csv_fini(&csv, &OnCell, &OnRow, this) != 0) return BadQuote();
    }
    return status;
  }

  absl::Status BadQuote() const {
    if (csv_error(const_cast<csv_parser*>(&csv)) == CSV_ENOMEM)
      return absl::ResourceExhaustedError(fmt::format("{}: no memory for its cells", name));
    return status.ok() ? Wrong(line, "a quote is not closed, or stands within a cell; write it twice in a quoted cell") : status;
  }

  const std::unique_ptr<ByteSource> source;
  const std::string name;
  csv_parser csv{};
  std::vector<char> chunk;
  std::deque<CsvRow> rows;
  CsvRow row;  // the one that is being read
  int64_t line = 1;
  size_t width = 0;
  bool at_start = true;
  bool at_end = false;
  absl::Status status;
};

CsvReader::CsvReader(std::unique_ptr<ByteSource> source, std::string name, char delimiter)
    : parser_(std::make_unique<Parser>(std::move(source), std::move(name), delimiter)) {}

CsvReader::~CsvReader() = default;

absl::StatusOr<bool> CsvReader::Next(CsvRow& row) {
  while (parser_->rows.empty() && !parser_->at_end) {
    const absl::Status fed = parser_->Feed();
    if (!fed.ok()) {
      parser_->status = fed;
      parser_->at_end = true;
    }
  }
  if (!parser_->rows.empty()) {
    row = std::move(parser_->rows.front());
    parser_->rows.pop_front();
    return true;
  }
  TY_RETURN_IF_ERROR(std::exchange(parser_->status, absl::OkStatus()));
  return false;
}

}  // namespace trainyard::engine
