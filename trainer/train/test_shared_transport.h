// One transport for all replicas of a test.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "trainer/transport/transport.h"

namespace trainyard::engine {

// `transport` must outlive it.
class SharedTransport final : public Transport {
 public:
  explicit SharedTransport(Transport& transport) : transport_(transport) {}
  std::shared_ptr<Stream> Dial(const std::string& address, std::shared_ptr<StreamHandler> handler, absl::Duration deadline) override {
    return transport_.Dial(address, std::move(handler), deadline);
  }
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, std::shared_ptr<StreamHandler> handler) override {
    return transport_.Listen(address, std::move(handler));
  }

 private:
  Transport& transport_;
};

}  // namespace trainyard::engine
