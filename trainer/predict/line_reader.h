// Lines of any stream, none held that is longer than its reader can take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>

namespace trainyard::engine {

// Not thread-safe. The stream must outlive the reader.
//
// Reads lines that end with \n, or with the stream; the \n is not part of them. A line of more than
// `most_bytes` bytes is passed over in memory of that size, whatever its length.
class LineReader {
 public:
  enum class Found : uint8_t { kLine, kTooLong, kEnd };

  LineReader(std::istream& stream, size_t most_bytes) : stream_(stream), most_bytes_(most_bytes) {}

  // The next line that has more than spaces, tabs and \r. After kTooLong the next call goes on
  // behind that line.
  Found Next();

  std::string& line() { return line_; }       // of the last call that found one
  int64_t number() const { return number_; }  // of that line, or of the line that was too long, from 1
  size_t most_bytes() const { return most_bytes_; }

 private:
  Found Read();

  std::istream& stream_;
  const size_t most_bytes_;
  std::string line_;
  int64_t number_ = 0;
};

}  // namespace trainyard::engine
