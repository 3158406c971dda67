# What `cmake --install` (`./dev install PREFIX`) puts where.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Components are the packages of cmake/HeedPackage.cmake: program, library, development.
install(TARGETS heed_shared heed_static heed_lessons_shared heed_lessons_static EXPORT heedTargets
  LIBRARY COMPONENT library NAMELINK_COMPONENT development
  ARCHIVE COMPONENT development)
install(TARGETS heed_program COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/heed DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT development FILES_MATCHING PATTERN "*.h")

# Completion scripts and manual pages come from the program's own tables of options: it runs while
# installing, where it was built for another processor by the emulator of the toolchain file.
set(HEED_RUN "${CMAKE_CROSSCOMPILING_EMULATOR} \"$<TARGET_FILE:heed_program>\"")
set(HEED_BASH_FOLDER ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
set(HEED_ZSH_FOLDER ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
set(HEED_FISH_FOLDER ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
set(HEED_DOCUMENTS ${CMAKE_BINARY_DIR}/documents)
install(CODE "
  file(REMOVE_RECURSE \"${HEED_DOCUMENTS}\")
  file(MAKE_DIRECTORY \"${HEED_DOCUMENTS}\")
  foreach(call bash:heed zsh:_heed fish:heed.fish)
    string(REPLACE \":\" \";\" call \${call})
    list(GET call 0 shell)
    list(GET call 1 name)
    execute_process(COMMAND ${HEED_RUN} completion \${shell}
      OUTPUT_FILE \"${HEED_DOCUMENTS}/\${name}\" COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  execute_process(COMMAND ${HEED_RUN} manual --lang en -o \"${HEED_DOCUMENTS}/man/man1\"
    COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${HEED_RUN} manual --lang ko -o \"${HEED_DOCUMENTS}/man/ko/man1\"
    COMMAND_ERROR_IS_FATAL ANY)
" COMPONENT program)
install(FILES ${HEED_DOCUMENTS}/heed DESTINATION ${HEED_BASH_FOLDER} COMPONENT program)
install(FILES ${HEED_DOCUMENTS}/_heed DESTINATION ${HEED_ZSH_FOLDER} COMPONENT program)
install(FILES ${HEED_DOCUMENTS}/heed.fish DESTINATION ${HEED_FISH_FOLDER} COMPONENT program)
install(DIRECTORY ${HEED_DOCUMENTS}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT program)
# The server's units are part of Debian's packages; elsewhere docs/deploy is the place to read them.
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  install(FILES ${PROJECT_SOURCE_DIR}/docs/deploy/heed.service ${PROJECT_SOURCE_DIR}/docs/deploy/heed.socket
    DESTINATION lib/systemd/system COMPONENT program)
endif()

set(HEED_CMAKE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/heed)
install(EXPORT heedTargets NAMESPACE heed:: DESTINATION ${HEED_CMAKE_FOLDER}
  COMPONENT development)
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
  DESTINATION ${HEED_CMAKE_FOLDER} COMPONENT development)
file(RELATIVE_PATH HEED_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/heed.pc.in ${CMAKE_BINARY_DIR}/heed.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/heed.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT development)
include(HeedPackage)
