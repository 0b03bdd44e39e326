// Rows of CSV text (RFC 4180), by libcsv.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/byte_source.h"

namespace trainyard::engine {

struct CsvRow {
  std::vector<std::string> cells;  // without the blanks around cells that are not quoted
  int64_t line = 0;                // at which the row begins, from 1
};

// Not thread-safe. A byte order mark at the start and empty lines do not count. Lines end with LF
// or CRLF.
class CsvReader {
 public:
  // `name` is what errors call the text.
  CsvReader(std::unique_ptr<ByteSource> source, std::string name, char delimiter);
  ~CsvReader();
  CsvReader(const CsvReader&) = delete;
  CsvReader& operator=(const CsvReader&) = delete;

  // Fills `row`; false at the end. Every row has as many cells as the first. InvalidArgument with
  // name and line: another number of cells, more than 65536 of them, a cell of more than 1 MiB, a
  // quote in the wrong place, text that is not UTF-8 or has zero bytes. It then is at its end.
  absl::StatusOr<bool> Next(CsvRow& row);

 private:
  struct Parser;
  const std::unique_ptr<Parser> parser_;
};

}  // namespace trainyard::engine
