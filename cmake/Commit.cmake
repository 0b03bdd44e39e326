# Writes version.h into the build folder; `--version` of both programs prints what it holds.
# TRAINYARD_COMMIT may be given where there is no git folder (an image build).
set(TRAINYARD_COMMIT "" CACHE STRING "the commit that --version prints; empty asks git")
set(commit "${TRAINYARD_COMMIT}")
if(NOT commit)
  execute_process(COMMAND git -C ${CMAKE_SOURCE_DIR} rev-parse --short=12 HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT commit)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/trainyard_version.h CONTENT
"#pragma once
#define TRAINYARD_VERSION \"@PROJECT_VERSION@\"
#define TRAINYARD_IMAGE_TAG \"@PROJECT_VERSION_MAJOR@.@PROJECT_VERSION_MINOR@\"
#define TRAINYARD_COMMIT \"@commit@\"
" @ONLY)
