# The third-party libraries of libkiln.so and of the commands, linked as static archives: a built Kiln
# runs on Linux machines that have none of them. exports.map keeps their names inside. Included before
# MLIR's package, which looks for zlib and zstd as well and takes what was found here.
set(kiln_suffixes ${CMAKE_FIND_LIBRARY_SUFFIXES})
foreach(library SQLite3_LIBRARY ZLIB_LIBRARY_RELEASE) # that a folder has found by other rules
  if(DEFINED CACHE{${library}} AND NOT ${library} MATCHES "[.]a$")
    unset(${library} CACHE)
  endif()
endforeach()
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
find_package(SQLite3 3.37 REQUIRED) # STRICT tables
find_package(ZLIB REQUIRED)
set(CMAKE_FIND_LIBRARY_SUFFIXES ${kiln_suffixes})
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.74 REQUIRED COMPONENTS context)
find_package(zstd REQUIRED) # zstd::libzstd_static
find_package(nlohmann_json 3.9 REQUIRED)

# Distributions have {fmt} as a shared library or as headers alone, which cost each unit up to three
# seconds of compilation. Here its functions are compiled once.
find_package(fmt REQUIRED)
add_library(kiln_fmt STATIC ${PROJECT_SOURCE_DIR}/tools/cmake/fmt.cpp)
target_include_directories(kiln_fmt SYSTEM PUBLIC
  $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)

# std::filesystem, out of libstdc++'s archive into a smaller one. LibTorch's libraries export the
# functions of it that their compiler linked in, libtorch.so not even all that these call; the loader
# would take those in place of libstdc++'s in libraries that do not have their own.
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.a
  OUTPUT_VARIABLE kiln_archive OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(kiln_members fs_dir.o fs_ops.o fs_path.o)
set(kiln_folder ${PROJECT_BINARY_DIR}/filesystem)
if(${kiln_archive} IS_NEWER_THAN ${kiln_folder}/libkiln_filesystem.a) # or that is not there yet
  file(MAKE_DIRECTORY ${kiln_folder})
  foreach(arguments "x;${kiln_archive}" "rcs;libkiln_filesystem.a")
    execute_process(COMMAND ${CMAKE_AR} ${arguments} ${kiln_members}
      WORKING_DIRECTORY ${kiln_folder} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
endif()
add_library(kiln_filesystem STATIC IMPORTED)
set_target_properties(kiln_filesystem PROPERTIES
  IMPORTED_LOCATION ${kiln_folder}/libkiln_filesystem.a)
