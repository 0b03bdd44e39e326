// tf.Example messages: what the records of a TFRecord file of training data are.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "trainer/data/data_config.h"
#include "trainer/data/formats/elements.h"

namespace trainyard::engine {

// Reuses its memory from message to message. Not thread-safe.
class TfExampleParser {
 public:
  explicit TfExampleParser(FeatureNames names);
  ~TfExampleParser();
  TfExampleParser(const TfExampleParser&) = delete;
  TfExampleParser& operator=(const TfExampleParser&) = delete;

  struct Parsed {
    Elements image;  // bytes_list of one text: uint8; float_list; int64_list
    Elements label;
  };
  // Valid until the next call. InvalidArgument: no tf.Example, or one without the features; the
  // message names what it has.
  absl::StatusOr<Parsed> Parse(std::string_view record);

 private:
  struct Message;
  const FeatureNames names_;
  const std::unique_ptr<Message> message_;
};

}  // namespace trainyard::engine
