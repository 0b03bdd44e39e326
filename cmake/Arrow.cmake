# Arrow with its Parquet reader, if there is one: TRAINYARD_ARROW is AUTO (used if found), ON (must be found) or OFF. Looked for as an installed
# Arrow (libarrow-dev, libparquet-dev), then in the pyarrow wheel that
#   scripts/venv.sh trainer/data/parquet/requirements.txt
# installs: it carries headers and libraries. Sets TRAINYARD_ARROW_FOUND and the target
# trainyard::arrow. The libraries are not made with sanitizers. ThreadSanitizer must see every lock,
# so a build with it has no Arrow. AddressSanitizer sees the project's own code on Arrow's memory.
set(TRAINYARD_ARROW AUTO CACHE STRING "read Parquet files by Arrow: AUTO, ON or OFF")
set(TRAINYARD_ARROW_FOUND OFF)
if(TRAINYARD_ARROW STREQUAL OFF OR TRAINYARD_SANITIZE MATCHES thread)
  return()
endif()

find_package(Arrow QUIET CONFIG)
find_package(Parquet QUIET CONFIG)
if(TARGET Parquet::parquet_shared)
  add_library(trainyard::arrow ALIAS Parquet::parquet_shared)
  set(TRAINYARD_ARROW_FOUND ON)
else()
  file(GLOB arrow_wheel LIST_DIRECTORIES ON ${CMAKE_SOURCE_DIR}/.cache/venvs/trainer-data-parquet/lib/python3*/site-packages/pyarrow)
  file(GLOB arrow_libraries ${arrow_wheel}/libarrow.so.*)
  file(GLOB parquet_libraries ${arrow_wheel}/libparquet.so.*)
  list(LENGTH arrow_libraries arrow_count)
  list(LENGTH parquet_libraries parquet_count)
  if(arrow_count EQUAL 1 AND parquet_count EQUAL 1)
    add_library(trainyard_arrow INTERFACE)
    add_library(trainyard::arrow ALIAS trainyard_arrow)
    target_include_directories(trainyard_arrow SYSTEM INTERFACE ${arrow_wheel}/include)
    target_link_libraries(trainyard_arrow INTERFACE ${parquet_libraries} ${arrow_libraries})
    set(TRAINYARD_ARROW_FOUND ON)
  endif()
endif()
if(TRAINYARD_ARROW STREQUAL ON AND NOT TRAINYARD_ARROW_FOUND)
  message(FATAL_ERROR "TRAINYARD_ARROW is ON, but there is no Arrow; install one, or run scripts/venv.sh trainer/data/parquet/requirements.txt")
endif()
