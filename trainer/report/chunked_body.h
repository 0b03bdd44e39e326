// A chunked body of HTTP/1.1 (RFC 9112, section 7.1).
#pragma once

#include <httplib.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace trainyard::engine {

enum class ChunkedRead : uint8_t { kWhole, kBroken, kTooLong };

// Appends the bytes of all chunks to `body`, at most `most`. Extensions of chunks and trailer
// fields are read and left out. After kWhole the next byte of `stream` is the first one behind the
// body; else nobody knows where the body ends. The library's own reading accepts a chunk without
// its line end, and refuses trailers.
ChunkedRead ReadChunkedBody(httplib::Stream& stream, size_t most, std::string& body);

}  // namespace trainyard::engine
