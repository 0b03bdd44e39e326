# Language level, warnings, sanitizers, linker and ccache of every target of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(CCACHE ccache)
if(CCACHE)
  # Paths are hashed relative to the source folder, so that a second clone hits the same cache; precompiled headers are allowed. A file's headers are
  # known from the compiler's own list: to preprocess the file for it makes a build from nothing a tenth longer. What changes while it is compiled is
  # not cached: no include_file_mtime, with which the old object would answer for the new text.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
      CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()

# All files alike, so that they can share precompiled headers: gRPC asks its users for -pthread.
add_compile_options(-pthread)
add_compile_options(-Wall -Wextra -Werror -Wno-unused-parameter)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  add_compile_options(-Wthread-safety -Wno-psabi -Wno-deprecated-builtins -Wno-missing-designated-field-initializers)
  add_link_options(-fuse-ld=lld-19)
  # ccache can only reuse objects built against a precompiled header whose timestamp is not recorded.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
else()
  # As clang without its warning for designated initializers: a field that is not named has its default. gcc 12 is wrong about the inlined code of
  # libstdc++ and libfmt in the others.
  add_compile_options(-Wno-psabi -Wno-missing-field-initializers -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds -Wno-maybe-uninitialized)
  if(CMAKE_UNITY_BUILD)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)  # gcc takes the files of a unit for headers
  endif()
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
# For the files of tests. The code that they test is optimised as it ships. A file of tests takes a
# third of the time this way.
set(TRAINYARD_TEST_OPTIONS -O0)

set(TRAINYARD_SANITIZE "" CACHE STRING "sanitizers to build with, as -fsanitize takes them")
if(TRAINYARD_SANITIZE)
  # The compiler would spend most of its time on optimising the sanitizers' checks. Fuzzing for hours is worth -O1.
  set(TRAINYARD_LIBRARY_OPTIONS -O0 CACHE STRING "options of the libraries whose loops need no optimisation in a build with sanitizers")
  add_compile_options(-fsanitize=${TRAINYARD_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    add_compile_options(-fsanitize-ignorelist=${CMAKE_SOURCE_DIR}/tests/ubsan.ignore)
  endif()
  add_link_options(-fsanitize=${TRAINYARD_SANITIZE})
endif()

# Of a library that a fuzzer looks into.
set(TRAINYARD_FUZZ_OPTIONS -fsanitize=fuzzer-no-link -fsanitize-coverage-ignorelist=${CMAKE_SOURCE_DIR}/tests/coverage.ignore)

# With CMAKE_UNITY_BUILD (the sanitizers' presets, and all builds of CI) so many files of a folder
# are compiled at once. A build that starts from nothing then takes less than two thirds of the
# time. One changed file costs more then, so release and debug compile each file alone.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 30)

include_directories(${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
