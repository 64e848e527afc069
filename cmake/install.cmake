# `cmake --install`: the program, the public headers, the library, and the package that find_package(hfshard) finds.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hfshard)
install(TARGETS hfshard RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS hfshard_library EXPORT hfshard ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/hfshard DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT hfshard NAMESPACE hfshard:: FILE hfshardTargets.cmake DESTINATION ${package_dir})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/hfshardConfig.cmake.in ${PROJECT_BINARY_DIR}/hfshardConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/hfshardConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/hfshardConfig.cmake ${PROJECT_BINARY_DIR}/hfshardConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/hfshardCompression.cmake DESTINATION ${package_dir})
