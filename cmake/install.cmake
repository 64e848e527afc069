# `cmake --install`: the program, its manual pages and completions, the public headers, the library, and the package that find_package(hfshard) finds.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hfshard)
install(TARGETS hfshard RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS hfshard_library EXPORT hfshard ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/hfshard DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT hfshard NAMESPACE hfshard:: FILE hfshardTargets.cmake DESTINATION ${package_dir})

# Written by the program itself, into a tree as it is installed.
set(pages ${PROJECT_BINARY_DIR}/pages)
add_custom_command(OUTPUT ${pages}/made
  COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:hfshard> -DPAGES=${pages} -P ${CMAKE_CURRENT_LIST_DIR}/pages.cmake
  DEPENDS hfshard ${CMAKE_CURRENT_LIST_DIR}/pages.cmake VERBATIM)
add_custom_target(hfshard_pages ALL DEPENDS ${pages}/made)
install(DIRECTORY ${pages}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/hfshardConfig.cmake.in ${PROJECT_BINARY_DIR}/hfshardConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/hfshardConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/hfshardConfig.cmake ${PROJECT_BINARY_DIR}/hfshardConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/hfshardCompression.cmake DESTINATION ${package_dir})
