// Any bytes as a TFRecord file of tf.Examples, packed or not: refused with a status or read whole.
// Checksums stop most inputs, so the bytes are also taken as a message of their own.
#include "trainer/base/check.h"
#include "trainer/data/formats/example_table.h"
#include "trainer/data/formats/tf_example.h"
#include "trainer/data/formats/tfrecord_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trainyard::engine;  // NOLINT(google-build-using-namespace): a fuzz target's only function
  constexpr uint64_t kLimit = 16 << 20;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  TfExampleParser parser({});
  ExampleTable table({.example_shape = {2, 3}, .classes = 3}, {}, kLimit);
  table.BeginFile("fuzz");
  const auto append = [&](std::string_view record) {
    const absl::StatusOr<TfExampleParser::Parsed> parsed = parser.Parse(record);
    return parsed.ok() && table.Append(parsed->image, parsed->label).ok();
  };
  append(bytes);
  absl::StatusOr<std::unique_ptr<ByteSource>> source = Unpacked(MemorySource(bytes), "fuzz");
  TY_CHECK(source.ok());
  TfRecordReader reader(*std::move(source), "fuzz", kLimit);
  while (true) {
    const absl::StatusOr<std::optional<std::string_view>> record = reader.Next();
    if (!record.ok() || !*record || !append(**record)) return 0;
    TY_CHECK((*record)->size() <= kLimit);
  }
}
