// An optional for what few objects have, in objects of which thousands are cached.
#pragma once

#include <memory>
#include <optional>
#include <utility>

namespace trainyard::control {

// Takes the room of a pointer or two, whatever T is, and T's room where there is a value. The value
// never changes; copies share it. As with std::optional, * and -> need a value.
template <typename T>
class BoxedOptional {
 public:
  BoxedOptional() = default;
  // Implicit, as std::optional's are.
  BoxedOptional(std::nullopt_t) {}                                           // NOLINT(google-explicit-constructor)
  BoxedOptional(T value) : value_(std::make_shared<T>(std::move(value))) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return value_ != nullptr; }
  explicit operator bool() const { return has_value(); }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }

 private:
  std::shared_ptr<const T> value_;
};

}  // namespace trainyard::control
