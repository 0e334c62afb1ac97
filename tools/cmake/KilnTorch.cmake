# LibTorch as imported targets made by hand: find_package(Torch) would ask for nvcc, and only headers
# and libraries are needed. They lie in the pip wheel of .venv or of the python3 at hand, or in the
# folder that KILN_TORCH_DIR names (the one with include/ and lib/). A wheel without CUDA works too.
# Sets KILN_TORCH_FOUND, KILN_TORCH_VERSION (2.11), KILN_TORCH_CUDA and KILN_TORCH_CUDA_VERSION (13.0,
# or empty), and makes the targets kiln_libtorch and, without libraries, kiln_libtorch_headers. Also
# used by the installed package, whose users have their own LibTorch; `kiln_beside` is where one lies
# beside the package in Python's site-packages.
set(KILN_TORCH_DIR "" CACHE PATH "folder of LibTorch, with include/ and lib/; empty: search")

function(kiln_find_torch result)
  if(KILN_TORCH_DIR)
    set(${result} ${KILN_TORCH_DIR} PARENT_SCOPE)
    return()
  endif()
  # A build whose folder was configured before LibTorch was installed finds it all the same.
  file(GLOB libraries CONFIGURE_DEPENDS
    ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch/lib/libtorch_cpu.so)
  if(kiln_beside AND EXISTS ${kiln_beside}/lib/libtorch_cpu.so)
    list(PREPEND libraries ${kiln_beside}/lib/libtorch_cpu.so)
  endif()
  if(libraries)
    list(GET libraries 0 folder)
    cmake_path(GET folder PARENT_PATH folder) # lib/
    cmake_path(GET folder PARENT_PATH folder)
    set(${result} ${folder} PARENT_SCOPE)
    return()
  endif()
  execute_process(
    COMMAND python3 -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()

kiln_find_torch(kiln_torch_folder)
set(KILN_TORCH_FOUND OFF)
set(kiln_header ${kiln_torch_folder}/include/torch/headeronly/version.h)
if(kiln_torch_folder AND EXISTS ${kiln_torch_folder}/lib/libtorch_cpu.so)
  if(EXISTS ${kiln_header})
    set(KILN_TORCH_FOUND ON)
  else()
    message(WARNING "LibTorch in ${kiln_torch_folder} is too old, it has no "
      "include/torch/headeronly/version.h, and is left aside: install torch 2.11, or name the folder "
      "of another LibTorch with -DKILN_TORCH_DIR=")
  endif()
endif()

# kiln_read_define(VARIABLE NAME HEADER): the number that HEADER defines NAME as.
function(kiln_read_define variable name header)
  file(STRINGS ${header} line REGEX "^#define ${name} +[0-9]+")
  string(REGEX MATCH "[0-9]+$" number "${line}")
  set(${variable} ${number} PARENT_SCOPE)
endfunction()

if(KILN_TORCH_FOUND AND NOT TARGET kiln_libtorch)
  kiln_read_define(kiln_major TORCH_VERSION_MAJOR ${kiln_header})
  kiln_read_define(kiln_minor TORCH_VERSION_MINOR ${kiln_header})
  set(KILN_TORCH_VERSION ${kiln_major}.${kiln_minor})
  set(KILN_TORCH_CUDA_VERSION "")
  set(kiln_torch_lib ${kiln_torch_folder}/lib)
  # CUDA's headers and runtime: the wheels that torch's asks for, else a toolkit. The folder crt/ is
  # in a wheel of nvcc's, which torch does not ask for, but also in triton's, which it does.
  set(KILN_TORCH_CUDA OFF)
  if(EXISTS ${kiln_torch_lib}/libtorch_cuda.so)
    set(kiln_site ${kiln_torch_folder}/..)
    file(GLOB kiln_cuda_include ${kiln_site}/nvidia/cu*/include)
    list(APPEND kiln_cuda_include $ENV{CUDA_HOME}/include /usr/local/cuda/include)
    find_path(KILN_CUDA_INCLUDE cuda_runtime_api.h PATHS ${kiln_cuda_include} NO_DEFAULT_PATH)
    find_path(KILN_CUDA_CRT_INCLUDE crt/host_defines.h NO_DEFAULT_PATH
      PATHS ${KILN_CUDA_INCLUDE} ${kiln_site}/triton/backends/nvidia/include ${kiln_cuda_include})
    cmake_path(GET KILN_CUDA_INCLUDE PARENT_PATH kiln_cuda)
    file(GLOB kiln_cuda_runtime ${kiln_cuda}/lib/libcudart.so* ${kiln_cuda}/lib64/libcudart.so*)
    if(KILN_CUDA_INCLUDE AND KILN_CUDA_CRT_INCLUDE AND kiln_cuda_runtime)
      set(KILN_TORCH_CUDA ON)
      kiln_read_define(kiln_cuda_version CUDART_VERSION ${KILN_CUDA_INCLUDE}/cuda_runtime_api.h)
      math(EXPR kiln_major "${kiln_cuda_version} / 1000")
      math(EXPR kiln_minor "${kiln_cuda_version} % 1000 / 10")
      set(KILN_TORCH_CUDA_VERSION ${kiln_major}.${kiln_minor})
      list(GET kiln_cuda_runtime 0 kiln_cuda_runtime)
    else()
      message(WARNING "LibTorch has CUDA, but its headers are not there (cuda_runtime_api.h: "
        "'${KILN_CUDA_INCLUDE}', crt/: '${KILN_CUDA_CRT_INCLUDE}'), so that nothing will be taken on "
        "GPUs; install a CUDA toolkit or set KILN_CUDA_INCLUDE and KILN_CUDA_CRT_INCLUDE")
    endif()
  endif()

  add_library(kiln_libtorch_headers INTERFACE)
  target_include_directories(kiln_libtorch_headers SYSTEM INTERFACE
    ${kiln_torch_folder}/include ${kiln_torch_folder}/include/torch/csrc/api/include)
  target_compile_definitions(kiln_libtorch_headers INTERFACE AT_PER_OPERATOR_HEADERS)
  target_compile_features(kiln_libtorch_headers INTERFACE cxx_std_20)
  set(kiln_torch_libraries torch_cpu c10)
  add_library(kiln_libtorch INTERFACE)
  target_link_libraries(kiln_libtorch INTERFACE kiln_libtorch_headers)
  if(KILN_TORCH_CUDA)
    target_include_directories(kiln_libtorch_headers SYSTEM INTERFACE ${KILN_CUDA_INCLUDE}
                                                                      ${KILN_CUDA_CRT_INCLUDE})
    list(PREPEND kiln_torch_libraries torch_cuda c10_cuda)
    target_link_libraries(kiln_libtorch INTERFACE ${kiln_cuda_runtime})
  endif()
  # Without --no-as-needed a linker that drops libraries would leave ATen's CUDA kernels out.
  target_link_options(kiln_libtorch INTERFACE -Wl,--no-as-needed)
  foreach(library IN LISTS kiln_torch_libraries)
    target_link_libraries(kiln_libtorch INTERFACE ${kiln_torch_lib}/lib${library}.so)
  endforeach()
  # What torch's own libraries need is found when they are loaded.
  target_link_options(kiln_libtorch INTERFACE -Wl,--allow-shlib-undefined)
endif()
