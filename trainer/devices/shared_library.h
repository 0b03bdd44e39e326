// A library that is loaded when it is needed, so that the program starts where there is none.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace trainyard::engine {

// Stays loaded until the process ends: libraries of CUDA have threads of their own.
class SharedLibrary {
 public:
  // Looked for in the program's RUNPATH, then as the system does. Unavailable tells the loader's
  // words.
  static absl::StatusOr<SharedLibrary> Open(const std::string& name);

  // Sets `function` to the library's function `name`. Unavailable where it has none.
  template <typename Function>
  absl::Status Find(const char* name, Function*& function) const {
    const absl::StatusOr<void*> address = Address(name);
    if (!address.ok()) return address.status();
    function = reinterpret_cast<Function*>(*address);
    return absl::OkStatus();
  }

 private:
  SharedLibrary(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}
  absl::StatusOr<void*> Address(const char* function) const;

  std::string name_;
  void* handle_;
};

}  // namespace trainyard::engine
