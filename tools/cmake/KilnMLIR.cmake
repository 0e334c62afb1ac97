# MLIR 19 from the system's packages, linked as static archives.
# The exported targets put the shared libLLVM behind every MLIR archive; that one
# edge is pointed at LLVM's archives instead, so that nothing of LLVM is needed at run time.
# Behind LLVM's archives stands the shared libzstd: the static one is put in its place.
find_package(MLIR 19.1 REQUIRED CONFIG PATHS /usr/lib/llvm-19/lib/cmake/mlir NO_DEFAULT_PATH)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

llvm_map_components_to_libnames(kiln_llvm_libs support)
add_library(llvm_static INTERFACE)
target_link_libraries(llvm_static INTERFACE ${kiln_llvm_libs})
get_property(kiln_mlir_libs GLOBAL PROPERTY MLIR_ALL_LIBS)
foreach(lib IN LISTS kiln_mlir_libs)
  if(TARGET ${lib})
    get_target_property(deps ${lib} INTERFACE_LINK_LIBRARIES)
    if(deps)
      list(TRANSFORM deps REPLACE "^LLVM$" "llvm_static")
      set_target_properties(${lib} PROPERTIES INTERFACE_LINK_LIBRARIES "${deps}")
    endif()
  endif()
endforeach()
get_target_property(deps LLVMSupport INTERFACE_LINK_LIBRARIES)
list(TRANSFORM deps REPLACE "^zstd::libzstd_shared$" "zstd::libzstd_static")
set_target_properties(LLVMSupport PROPERTIES INTERFACE_LINK_LIBRARIES "${deps}")

# mlir_target(NAME archives...): compile and link NAME against MLIR.
function(mlir_target name)
  target_include_directories(${name} SYSTEM PUBLIC ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
  target_link_libraries(${name} PUBLIC ${ARGN})
  # On MLIR's headers these four checks take as long as everything else in a compilation, and what
  # they would find there AddressSanitizer finds at the access.
  if(KILN_SANITIZE)
    target_compile_options(${name} PRIVATE
      -fno-sanitize=null,object-size,pointer-overflow,alignment)
  endif()
endfunction()

# generated_source(FILE): FILE holds what TableGen wrote and little else; optimising or sanitizing
# it takes minutes and changes nothing.
function(generated_source file)
  set(options -O1)
  if(KILN_SANITIZE)
    set(options -O0 -fno-sanitize=all)
  endif()
  set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${options}"
                                                 SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# units_together(TARGET NAME FILES...): these files are compiled as one, and not with others of TARGET,
# whose names mean other things.
function(units_together target name)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${name})
endfunction()
