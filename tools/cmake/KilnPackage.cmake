# What an installed Kiln holds: libkiln.so, libkiln_torch.so and libkiln_dist.so if they were built,
# their public headers, the device headers and a CMake package, so that find_package(kiln CONFIG) gives
# kiln::kiln, kiln::torch and kiln::dist; and the archive of all that, which works wherever it is unpacked. No path of this
# machine may get in. Included last, by the top level.
if(NOT TARGET kiln)
  return()
endif()
include(CMakePackageConfigHelpers)
set(kiln_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kiln)

# What libkiln.so is made of concerns this build only; users see one library and its headers.
foreach(property INTERFACE_LINK_LIBRARIES INTERFACE_INCLUDE_DIRECTORIES
                 INTERFACE_SYSTEM_INCLUDE_DIRECTORIES)
  get_target_property(value kiln ${property})
  if(value)
    set_property(TARGET kiln PROPERTY ${property} "$<BUILD_INTERFACE:${value}>")
  endif()
endforeach()
set_property(TARGET kiln APPEND PROPERTY INTERFACE_INCLUDE_DIRECTORIES
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/codegen/include>"
  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
set_property(TARGET kiln APPEND PROPERTY INTERFACE_COMPILE_FEATURES cxx_std_20)
# The file has the name that programs ask for: a wheel can hold no link from one to the other.
set(version ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set_target_properties(kiln PROPERTIES VERSION ${version} SOVERSION ${version})

if(TARGET kiln_torch)
  # libkiln.so lies in the same folder. LibTorch is the one that the program has loaded; for a program
  # that has none of its own it is looked for where site-packages has it, beside Kiln's folder.
  set_target_properties(kiln_torch PROPERTIES VERSION ${version} SOVERSION ${version} EXPORT_NAME torch
    INSTALL_RPATH "$ORIGIN;$ORIGIN/../../torch/lib")
  set_target_properties(kiln_dist PROPERTIES VERSION ${version} SOVERSION ${version} EXPORT_NAME dist
    INSTALL_RPATH "$ORIGIN;$ORIGIN/../../torch/lib")
  install(TARGETS kiln_torch kiln_dist EXPORT kilnTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/include/kiln
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
  install(FILES ${PROJECT_SOURCE_DIR}/tools/cmake/KilnTorch.cmake DESTINATION ${kiln_package_dir})
endif()
install(TARGETS kiln EXPORT kilnTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/codegen/include/kiln
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/codegen/device
  DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln FILES_MATCHING PATTERN "*.cuh")
# The system's layer of stores: what was tuned on GPUs that Kiln's authors had.
install(FILES ${PROJECT_SOURCE_DIR}/autotune/stores/h200.db
  DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln RENAME store)
install(EXPORT kilnTargets NAMESPACE kiln:: DESTINATION ${kiln_package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/tools/cmake/kilnConfig.cmake.in
  ${CMAKE_BINARY_DIR}/kilnConfig.cmake INSTALL_DESTINATION ${kiln_package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/kilnConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/kilnConfig.cmake ${CMAKE_BINARY_DIR}/kilnConfigVersion.cmake
  DESTINATION ${kiln_package_dir})

# Whoever has the binaries has the licences: Kiln's, and those of what is linked into them, as their
# packages state them.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
foreach(package libboost-context-dev libcli11-dev libfmt-dev libsqlite3-dev libzstd-dev llvm-19-dev
                nlohmann-json3-dev)
  if(EXISTS /usr/share/doc/${package}/copyright)
    file(REAL_PATH /usr/share/doc/${package}/copyright copyright)
    install(FILES ${copyright} DESTINATION ${CMAKE_INSTALL_DOCDIR}/licenses RENAME ${package})
  endif()
endforeach()

# `cpack` in the build folder makes kiln-VERSION-linux-x86_64.tar.gz: what is installed, README and
# LICENSE on top of it.
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION .
  COMPONENT archive EXCLUDE_FROM_ALL)
set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_FILE_NAME kiln-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_INSTALL_CMAKE_PROJECTS
  "${PROJECT_BINARY_DIR};kiln;ALL;/;${PROJECT_BINARY_DIR};kiln;archive;/")
set(CPACK_STRIP_FILES ON)
set(CPACK_SOURCE_GENERATOR "") # sources are git's business
include(CPack)
