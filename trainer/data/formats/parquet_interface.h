// The interface between the trainer and the module that reads Parquet: plain types only, so that
// the two need not be linked together. The module is a shared object beside the program. It is
// there if Arrow was there when it was built (cmake/Arrow.cmake). Only jobs with Parquet files load
// it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/data/formats/elements.h"

namespace trainyard::engine {

// One record; false ends the reading.
using ParquetRow = bool (*)(void* context, const Elements& image, const Elements& label);

struct ParquetRequest {
  const char* path = nullptr;
  const char* image = nullptr;  // columns
  const char* label = nullptr;
  uint64_t max_bytes = 0;  // memory that Arrow may have at once
  ParquetRow row = nullptr;
  void* context = nullptr;
  char* error = nullptr;  // gets the message, cut to error_bytes with its 0
  size_t error_bytes = 0;
};

// Calls request.row for every record of the file, in order. False, with a message, when the file is
// damaged, or more memory than max_bytes is asked for. So too when a column is missing, or has a
// type that is not read. False without a message when row() said so.
using ReadParquetFunction = bool (*)(const ParquetRequest* request);
inline constexpr char kReadParquetSymbol[] = "trainyard_read_parquet";
inline constexpr char kParquetModuleFile[] = "trainyard-parquet.so";

}  // namespace trainyard::engine
