# The third-party libraries of libkiln.so and of the commands, linked as static archives: a built Kiln
# runs on Linux machines that have none of them. exports.map keeps their names inside. Included before
# MLIR's package, which looks for zlib and zstd as well and takes what was found here.
set(kiln_suffixes ${CMAKE_FIND_LIBRARY_SUFFIXES})
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
