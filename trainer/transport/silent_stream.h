// For tests: a stream that takes everything and says nothing.
#pragma once

#include <string>
#include <vector>

#include "trainer/transport/transport.h"

namespace trainyard::engine {

class SilentStream final : public Stream {
 public:
  void Send(std::vector<Record> /*records*/, bool /*more*/) override {}
  void Close(const absl::Status& /*status*/) override {}
  void Abort() override {}
  void SetWindow(size_t /*bytes*/) override {}
  void LendIfStarved() override {}
  std::string peer() const override { return "someone"; }
  StreamTraffic traffic() const override { return {}; }
};

}  // namespace trainyard::engine
