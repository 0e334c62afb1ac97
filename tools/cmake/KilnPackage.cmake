# What an installed Kiln holds: libkiln.so, libkiln_torch.so if it was built, their public headers,
# the device headers and a CMake package, so that find_package(kiln CONFIG) gives kiln::kiln and
# kiln::torch. Included last, by the top level.
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
set_target_properties(kiln PROPERTIES VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

if(TARGET kiln_torch)
  # Beside libkiln.so; LibTorch's libraries are those of the program, or the ones it was built with.
  set_target_properties(kiln_torch PROPERTIES VERSION ${PROJECT_VERSION} EXPORT_NAME torch
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    INSTALL_RPATH "$ORIGIN;${kiln_torch_folder}/lib")
  install(TARGETS kiln_torch EXPORT kilnTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
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
