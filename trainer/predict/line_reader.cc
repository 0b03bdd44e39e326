#include "trainer/predict/line_reader.h"

#include <cstdio>
#include <streambuf>

namespace trainyard::engine {

LineReader::Found LineReader::Next() {
  for (;;) {
    const Found found = Read();
    if (found != Found::kLine || line_.find_first_not_of(" \t\r") != std::string::npos) return found;
  }
}

LineReader::Found LineReader::Read() {
  line_.clear();
  bool too_long = false;
  std::streambuf& bytes = *stream_.rdbuf();
  int byte = bytes.sbumpc();
  if (byte == EOF) return Found::kEnd;
  for (; byte != EOF && byte != '\n'; byte = bytes.sbumpc()) {
    too_long = too_long || line_.size() >= most_bytes_;
    if (!too_long) line_ += static_cast<char>(byte);
  }
  ++number_;
  return too_long ? Found::kTooLong : Found::kLine;
}

}  // namespace trainyard::engine
