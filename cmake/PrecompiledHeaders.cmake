# Headers that most files include. Parsing them takes more time than parsing the rest of a file. So
# they are parsed once for all libraries, and once more with GoogleTest for all test programs. Clang
# only: gcc's build and clang-tidy see each file with its own includes, and so find one that is
# missing. The precompiled files hold the paths of their checkout, so ccache finds no object of
# another checkout: configure several with the option OFF.
option(TRAINYARD_PRECOMPILED_HEADERS "precompile the headers that most files include (clang only)" ON)
set(TRAINYARD_COMMON_HEADERS <algorithm> <functional> <map> <memory> <optional> <string> <vector> <absl/status/statusor.h> <absl/strings/str_cat.h>
    <absl/synchronization/mutex.h> <absl/time/time.h> <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp>)
set(TRAINYARD_TEST_HEADERS <gtest/gtest.h> <gmock/gmock.h>)

# trainyard_precompiled_headers(): makes the two targets that own them. Before any folder.
function(trainyard_precompiled_headers)
  if(NOT TRAINYARD_PRECOMPILED_HEADERS OR NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    return()
  endif()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled_headers.cc CONTENT "" @ONLY)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled_test_headers.cc CONTENT "int main() {}\n" @ONLY)
  set(libraries absl::statusor absl::strings absl::synchronization absl::time spdlog::spdlog nlohmann_json::nlohmann_json Threads::Threads)
  add_library(trainyard_pch OBJECT ${CMAKE_BINARY_DIR}/precompiled_headers.cc)
  target_link_libraries(trainyard_pch PRIVATE ${libraries})
  target_compile_options(trainyard_pch PRIVATE ${TRAINYARD_LIBRARY_OPTIONS})
  target_precompile_headers(trainyard_pch PRIVATE ${TRAINYARD_COMMON_HEADERS})
  if(TRAINYARD_FUZZ)
    # Of libraries that a fuzzer looks into (Folder.cmake).
    add_library(trainyard_fuzz_pch OBJECT ${CMAKE_BINARY_DIR}/precompiled_headers.cc)
    target_link_libraries(trainyard_fuzz_pch PRIVATE ${libraries})
    target_compile_options(trainyard_fuzz_pch PRIVATE ${TRAINYARD_LIBRARY_OPTIONS} ${TRAINYARD_FUZZ_OPTIONS})
    target_precompile_headers(trainyard_fuzz_pch PRIVATE ${TRAINYARD_COMMON_HEADERS})
  endif()
  if(TRAINYARD_TESTS)
    add_executable(trainyard_test_pch ${CMAKE_BINARY_DIR}/precompiled_test_headers.cc)  # a program: its code is compiled with other options than a library's
    target_link_libraries(trainyard_test_pch PRIVATE ${libraries} GTest::gmock)
    target_compile_options(trainyard_test_pch PRIVATE ${TRAINYARD_TEST_OPTIONS})
    target_precompile_headers(trainyard_test_pch PRIVATE ${TRAINYARD_COMMON_HEADERS} ${TRAINYARD_TEST_HEADERS})
  endif()
endfunction()

# trainyard_use_precompiled_headers(<target> <owner> [header…]): those of the owner, or with further headers the common ones in a set of the target's own.
function(trainyard_use_precompiled_headers target owner)
  if(NOT TRAINYARD_PRECOMPILED_HEADERS OR NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    return()
  endif()
  if(ARGN)
    target_precompile_headers(${target} PRIVATE ${TRAINYARD_COMMON_HEADERS} ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()
