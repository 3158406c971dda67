# What `cmake --install` (`./dev install PREFIX`) puts where.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS heed_shared heed_static EXPORT heedTargets)
install(TARGETS heed_program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/heed DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")

set(HEED_CMAKE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/heed)
install(EXPORT heedTargets NAMESPACE heed:: DESTINATION ${HEED_CMAKE_FOLDER})
if(MPI_CXX_FOUND)
  set(HEED_WITH_MPI ON)
  list(JOIN MPI_CXX_LIBRARIES " " HEED_PC_MPI)
else()
  set(HEED_WITH_MPI OFF)
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/heedConfig.cmake.in
  ${CMAKE_BINARY_DIR}/heedConfig.cmake INSTALL_DESTINATION ${HEED_CMAKE_FOLDER})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/heedConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/heedConfig.cmake ${CMAKE_BINARY_DIR}/heedConfigVersion.cmake
  DESTINATION ${HEED_CMAKE_FOLDER})
file(RELATIVE_PATH HEED_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/heed.pc.in ${CMAKE_BINARY_DIR}/heed.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/heed.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
