# The CUDA toolkit, if there is one: TRAINYARD_CUDA is AUTO (used if found), ON (must be found) or
# OFF. Looked for on the system ($CUDA_HOME, the PATH, /usr/local/cuda), then in the environment that
#   scripts/setup.sh --cuda
# makes of trainer/backend/cuda/requirements.txt. Taken is the first that has nvcc from 12.8 on (the
# first that knows sm_100) and the headers of all that the backend calls. Sets TRAINYARD_CUDA_FOUND,
# the target trainyard::cuda (headers, and the static runtime) and trainyard_cuda_kernels().
#
# Only the runtime is linked. The program loads the rest by name, so that it starts without any of
# it: libcublasLt.so.13, libcudnn.so.9, libnvidia-ml.so.1 and the driver's libcuda.so.1.
# It loads libnvrtc.so.13 before cuDNN, which looks for that in its own folder only, unless it is
# there already.
# dlopen looks in the RUNPATH that trainyard::cuda gives to programs: where the toolkit has its
# libraries. trainyard-trainer looks in ../lib/trainyard too, where images have them.
#
# Another processor's build (arm64 from x86_64) has no CUDA, nor has one under ThreadSanitizer.
set(TRAINYARD_CUDA AUTO CACHE STRING "build the backend for NVIDIA GPUs: AUTO, ON or OFF")
set(TRAINYARD_CUDA_ARCHITECTURES "75;80;86;90;100" CACHE STRING "machine code for these GPUs, and PTX of the last for newer ones")
set(TRAINYARD_CUDA_FLAGS "" CACHE STRING "further options of nvcc, as -lineinfo")
set(TRAINYARD_CUDA_FOUND OFF)
if(TRAINYARD_CUDA STREQUAL OFF OR CMAKE_CROSSCOMPILING OR TRAINYARD_SANITIZE MATCHES thread)
  return()
endif()

# Sets trainyard_cuda_<what> to what lies under the roots, and adds a line to cuda_lacks for what does not.
function(trainyard_look_for_cuda nvcc)
  get_filename_component(nvcc ${nvcc} REALPATH)
  cmake_path(GET nvcc PARENT_PATH bin)
  cmake_path(GET bin PARENT_PATH root)
  execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE version ERROR_QUIET RESULT_VARIABLE failed)
  string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" _ "${version}")
  set(version ${CMAKE_MATCH_1})
  if(failed OR NOT version)
    set(trainyard_cuda_lacks "${nvcc} does not run" PARENT_SCOPE)
    return()
  elseif(version VERSION_LESS 12.8)
    set(trainyard_cuda_lacks "${nvcc} is of CUDA ${version}, 12.8 or newer is needed" PARENT_SCOPE)
    return()
  endif()
  # A wheel's root is site-packages/nvidia/cu13; those of cuDNN lie beside it.
  set(includes)
  set(lacks)
  foreach(header cuda_runtime.h cublasLt.h cudnn.h cudnn_frontend.h nvml.h)
    find_path(cuda_header ${header} NO_CACHE HINTS ${root}/include ${root}/../cudnn/include ${root}/../../include ${environment_headers})
    if(cuda_header)
      list(APPEND includes ${cuda_header})
    else()
      list(APPEND lacks ${header})
    endif()
    unset(cuda_header)
  endforeach()
  find_library(cuda_runtime cudart_static NO_CACHE HINTS ${root}/lib64 ${root}/lib)
  if(NOT cuda_runtime)
    list(APPEND lacks libcudart_static.a)
  endif()
  list(REMOVE_DUPLICATES includes)
  list(REMOVE_ITEM includes /usr/include)
  if(lacks)
    list(JOIN lacks ", " lacks)
    set(trainyard_cuda_lacks "beside ${nvcc} there is no ${lacks}" PARENT_SCOPE)
    return()
  endif()
  set(libraries)
  foreach(folder ${root}/lib64 ${root}/lib ${root}/../cudnn/lib)
    get_filename_component(folder ${folder} REALPATH)
    if(IS_DIRECTORY ${folder})
      list(APPEND libraries ${folder})
    endif()
  endforeach()
  set(trainyard_cuda_nvcc ${nvcc} PARENT_SCOPE)
  set(trainyard_cuda_version ${version} PARENT_SCOPE)
  set(trainyard_cuda_includes ${includes} PARENT_SCOPE)
  set(trainyard_cuda_libraries ${libraries} PARENT_SCOPE)
  set(trainyard_cuda_runtime ${cuda_runtime} PARENT_SCOPE)
endfunction()

find_program(system_nvcc nvcc NO_CACHE HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
file(GLOB environment_nvcc ${CMAKE_SOURCE_DIR}/.cache/venvs/trainer-backend-cuda/lib/python3*/site-packages/nvidia/cu13/bin/nvcc)
file(GLOB environment_headers ${CMAKE_SOURCE_DIR}/.cache/venvs/trainer-backend-cuda/lib/python3*/site-packages/include)  # of cuDNN's graphs
foreach(nvcc ${system_nvcc} ${environment_nvcc})
  if(nvcc AND NOT trainyard_cuda_nvcc)
    trainyard_look_for_cuda(${nvcc})
    if(NOT trainyard_cuda_nvcc)
      message(STATUS "CUDA: ${trainyard_cuda_lacks}")
    endif()
  endif()
endforeach()
if(NOT trainyard_cuda_nvcc)
  if(TRAINYARD_CUDA STREQUAL ON)
    message(FATAL_ERROR "TRAINYARD_CUDA is ON, but there is no CUDA toolkit with all that is needed; run scripts/setup.sh --cuda")
  endif()
  return()
endif()
set(TRAINYARD_CUDA_FOUND ON)

add_library(trainyard_cuda INTERFACE)
add_library(trainyard::cuda ALIAS trainyard_cuda)
target_include_directories(trainyard_cuda SYSTEM INTERFACE ${trainyard_cuda_includes})
target_link_libraries(trainyard_cuda INTERFACE ${trainyard_cuda_runtime} Threads::Threads ${CMAKE_DL_LIBS} rt)
foreach(folder IN LISTS trainyard_cuda_libraries)
  target_link_options(trainyard_cuda INTERFACE "LINKER:-rpath,${folder}")
endforeach()

# trainyard_cuda_kernels(<target> <file.cu>… [OPTIONS <option>…]): compiles the files by nvcc into a
# target that was made in the same folder and links trainyard::cuda. Always optimised, with the
# build's own compiler for the host's part, and through ccache where the build has it.
function(trainyard_cuda_kernels target)
  cmake_parse_arguments(arg "" "" "OPTIONS" ${ARGN})
  set(options -std=c++20 -O3 -DNDEBUG -ccbin=${CMAKE_CXX_COMPILER} -Xcompiler=-fPIC,-pthread -Werror=all-warnings ${TRAINYARD_CUDA_FLAGS} ${arg_OPTIONS})
  list(GET TRAINYARD_CUDA_ARCHITECTURES -1 last)
  foreach(architecture IN LISTS TRAINYARD_CUDA_ARCHITECTURES)
    set(code sm_${architecture})
    if(architecture STREQUAL last)
      set(code [${code},compute_${architecture}])
    endif()
    list(APPEND options -gencode=arch=compute_${architecture},code=${code})
  endforeach()
  foreach(folder ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
    list(APPEND options -I${folder})
  endforeach()
  foreach(folder IN LISTS trainyard_cuda_includes)
    list(APPEND options -isystem=${folder})
  endforeach()
  set(launcher ${CMAKE_CXX_COMPILER_LAUNCHER})
  if(launcher)
    list(PREPEND launcher ${CMAKE_COMMAND} -E env CCACHE_COMPILERCHECK=content)  # pip installs nvcc with the time of the day
  endif()
  foreach(source IN LISTS arg_UNPARSED_ARGUMENTS)
    get_filename_component(path ${source} ABSOLUTE)
    file(RELATIVE_PATH name ${CMAKE_CURRENT_SOURCE_DIR} ${path})
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
    get_filename_component(folder ${object} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(OUTPUT ${object} COMMAND ${launcher} ${trainyard_cuda_nvcc} ${options} -MD -MF ${object}.d -MT ${object} -c ${path} -o ${object}
                       DEPENDS ${path} ${trainyard_cuda_nvcc} DEPFILE ${object}.d COMMENT "Building CUDA object ${name}.o" VERBATIM)
    target_sources(${target} PRIVATE ${object})
  endforeach()
endfunction()
