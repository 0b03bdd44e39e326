#include "trainer/report/chunked_body.h"

#include <gtest/gtest.h>

#include <string>

namespace trainyard::engine {
namespace {

class Text final : public httplib::Stream {
 public:
  explicit Text(std::string text) : left(std::move(text)) {}
  bool is_readable() const override { return !left.empty(); }
  bool is_writable() const override { return false; }
  ssize_t read(char* bytes, size_t size) override {
    const size_t count = std::min({size, left.size(), size_t{3}});  // as a network does
    left.copy(bytes, count);
    left.erase(0, count);
    return count == 0 ? -1 : static_cast<ssize_t>(count);
  }
  ssize_t write(const char*, size_t) override { return -1; }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return INVALID_SOCKET; }

  std::string left;
};

TEST(ChunkedBody, IsReadToItsEndAndNoFurther) {
  for (const char* text : {"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n", "03;x=y\r\nabc\r\n4 ; z\r\ndefg\r\n000\r\nA: b\r\nC-d:\r\n\r\n"}) {
    Text stream(std::string(text) + "GET /");
    std::string body;
    EXPECT_EQ(ReadChunkedBody(stream, 7, body), ChunkedRead::kWhole) << text;
    EXPECT_EQ(body, "abcdefg");
    EXPECT_EQ(stream.left, "GET /");
  }
}

TEST(ChunkedBody, SizesAreHexadecimal) {
  for (const char* const size : {"1a", "1A", "00000000000001a"}) {
    Text stream(std::string(size) + "\r\n" + std::string(26, 'x') + "\r\n0\r\n\r\n");
    std::string body;
    EXPECT_EQ(ReadChunkedBody(stream, 26, body), ChunkedRead::kWhole) << size;
    EXPECT_EQ(body.size(), 26) << size;
  }
  Text longest("fffffffffffffff\r\n");
  std::string body;
  EXPECT_EQ(ReadChunkedBody(longest, 26, body), ChunkedRead::kTooLong);
}

TEST(ChunkedBody, WhatDoesNotEndAsItShouldIsBroken) {
  for (const char* text : {"",
                           "3",
                           "3\r\nab",
                           "3\r\nabc",
                           "3\r\nabc0\r\n\r\n",
                           "3\r\nabcd\r\n0\r\n\r\n",
                           "3\nabc\r\n0\r\n\r\n",
                           "\r\n",
                           "g\r\n",
                           "-3\r\nabc\r\n",
                           "0x3\r\nabc\r\n0\r\n\r\n",
                           " 3\r\nabc\r\n0\r\n\r\n",
                           "3 x\r\nabc\r\n0\r\n\r\n",
                           "3 \r\nabc\r\n0\r\n\r\n",
                           "ffffffffffffffff\r\n",
                           "0\r\n",
                           "0\r\nA: b\r\n",
                           "0\r\nno field\r\n\r\n",
                           "0\r\nA : b\r\n\r\n",
                           "0\r\n: b\r\n\r\n",
                           "3;\r;\r\nabc\r\n0\r\n\r\n"}) {
    Text stream(text);
    std::string body;
    EXPECT_EQ(ReadChunkedBody(stream, 1000, body), ChunkedRead::kBroken) << text;
  }
  Text line(std::string(100'000, '0'));
  std::string body;
  EXPECT_EQ(ReadChunkedBody(line, 1000, body), ChunkedRead::kBroken);
}

TEST(ChunkedBody, MoreBytesThanMayBeAreNotTaken) {
  Text stream("3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n");
  std::string body;
  EXPECT_EQ(ReadChunkedBody(stream, 6, body), ChunkedRead::kTooLong);
  EXPECT_EQ(body, "abc");
}

}  // namespace
}  // namespace trainyard::engine
