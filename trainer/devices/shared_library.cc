#include "trainer/devices/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace trainyard::engine {

absl::StatusOr<SharedLibrary> SharedLibrary::Open(const std::string& name) {
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return absl::UnavailableError(fmt::format("{} cannot be loaded: {}", name, dlerror()));
  return SharedLibrary(name, handle);
}

absl::StatusOr<void*> SharedLibrary::Address(const char* function) const {
  void* const address = dlsym(handle_, function);
  if (address == nullptr) return absl::UnavailableError(fmt::format("{} has no function {}: it is of another version", name_, function));
  return address;
}

}  // namespace trainyard::engine
