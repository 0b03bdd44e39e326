# In a build with ThreadSanitizer: every program links tests/tsan/absl_synchronization.cc and calls Abseil's locks through it.
if(TRAINYARD_SANITIZE MATCHES thread)
  set(wrappers ${CMAKE_SOURCE_DIR}/tests/tsan/absl_synchronization.cc)
  add_library(trainyard_tsan STATIC ${wrappers})
  # The one list of the wrapped names is the source itself.
  file(STRINGS ${wrappers} names REGEX "^WRAP_[A-Z]+\\(")
  foreach(line IN LISTS names)
    string(REGEX MATCH "_ZN[A-Za-z0-9_]+" name "${line}")
    target_link_options(trainyard_tsan INTERFACE -Wl,--wrap=${name})
  endforeach()
  link_libraries(trainyard_tsan)
endif()
