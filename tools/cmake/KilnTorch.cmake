# LibTorch as imported targets made by hand: find_package(Torch) would ask for nvcc, and only headers
# and libraries are needed. They lie in the pip wheel of .venv or of the python3 at hand, or in the
# folder that KILN_TORCH_DIR names (the one with include/ and lib/). A wheel without CUDA works too.
# Sets KILN_TORCH_FOUND and KILN_TORCH_CUDA, and makes the target kiln_libtorch. Also used by the
# installed package, whose users have their own LibTorch.
set(KILN_TORCH_DIR "" CACHE PATH "folder of LibTorch, with include/ and lib/; empty: search")

function(kiln_find_torch result)
  if(KILN_TORCH_DIR)
    set(${result} ${KILN_TORCH_DIR} PARENT_SCOPE)
    return()
  endif()
  # A build whose folder was configured before LibTorch was installed finds it all the same.
  file(GLOB wheels CONFIGURE_DEPENDS
    ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch/lib/libtorch_cpu.so)
  if(wheels)
    list(GET wheels 0 wheel)
    cmake_path(GET wheel PARENT_PATH lib)
    cmake_path(GET lib PARENT_PATH wheel)
    set(${result} ${wheel} PARENT_SCOPE)
    return()
  endif()
  execute_process(
    COMMAND python3 -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()

kiln_find_torch(kiln_torch_folder)
set(KILN_TORCH_FOUND OFF)
if(kiln_torch_folder AND EXISTS ${kiln_torch_folder}/lib/libtorch_cpu.so)
  set(KILN_TORCH_FOUND ON)
endif()

if(KILN_TORCH_FOUND AND NOT TARGET kiln_libtorch)
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
      list(GET kiln_cuda_runtime 0 kiln_cuda_runtime)
    else()
      message(WARNING "LibTorch has CUDA, but its headers are not there (cuda_runtime_api.h: "
        "'${KILN_CUDA_INCLUDE}', crt/: '${KILN_CUDA_CRT_INCLUDE}'), so that nothing will be taken on "
        "GPUs; install a CUDA toolkit or set KILN_CUDA_INCLUDE and KILN_CUDA_CRT_INCLUDE")
    endif()
  endif()

  add_library(kiln_libtorch INTERFACE)
  target_include_directories(kiln_libtorch SYSTEM INTERFACE
    ${kiln_torch_folder}/include ${kiln_torch_folder}/include/torch/csrc/api/include)
  target_compile_definitions(kiln_libtorch INTERFACE AT_PER_OPERATOR_HEADERS)
  target_compile_features(kiln_libtorch INTERFACE cxx_std_20)
  set(kiln_torch_libraries torch_cpu c10)
  if(KILN_TORCH_CUDA)
    target_include_directories(kiln_libtorch SYSTEM INTERFACE ${KILN_CUDA_INCLUDE}
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
