# Packages: Debian's by CPack, and the program of the relocatable archive (tools/package.sh).

# heed without MPI, whose library brings plug-ins and launchers of its own, looking for its libraries
# beside itself. It shares every object with heed_program except the one that includes mpi.h, where there is one.
add_executable(heed_portable EXCLUDE_FROM_ALL)
set(left_out "\\.gch|\\.pch")
if(MPI_CXX_FOUND)
  target_sources(heed_portable PRIVATE ${PROJECT_SOURCE_DIR}/src/dist/mpi.cc)
  string(APPEND left_out "|/dist/mpi\\.cc\\.o")
endif()
target_sources(heed_portable PRIVATE
  "$<FILTER:$<TARGET_OBJECTS:heed_objects>,EXCLUDE,(${left_out})$>"
  $<TARGET_OBJECTS:heed_lessons_objects>
  "$<FILTER:$<TARGET_OBJECTS:heed_program>,EXCLUDE,\\.(gch|pch)$>")
set(HEED_PORTABLE_LIBRARIES ${HEED_DEPENDENCIES})
target_include_directories(heed_portable PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(heed_portable PRIVATE heed_options ${HEED_PORTABLE_LIBRARIES} CLI11::CLI11)
heed_harden(heed_portable)
# An RPATH, not a RUNPATH: it must also lead the libraries to each other.
target_link_options(heed_portable PRIVATE -Wl,--disable-new-dtags -Wl,--as-needed)
set_target_properties(heed_portable PROPERTIES OUTPUT_NAME heed LINKER_LANGUAGE CXX
  RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/portable
  INSTALL_RPATH "$ORIGIN/../lib/heed" INSTALL_RPATH_USE_LINK_PATH OFF)

if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()
set(HEED_MAINTAINER "" CACHE STRING "Name <address> for the packages; ./dev package sets it")
set(HEED_PACKAGE_RELEASE 1 CACHE STRING "What follows the version in Debian's packages")
set(library_package libheed${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME heed)
set(CPACK_PACKAGE_CONTACT "${HEED_MAINTAINER}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL program library development)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${HEED_PACKAGE_RELEASE})
# CPack would take this machine's; tools/package.sh tells dpkg-shlibdeps the same.
if(CMAKE_CROSSCOMPILING)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
endif()
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME heed)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS fonts-nanum) # Korean text in pictures
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "Transformer engine: trains, runs and inspects attention models
heed builds, trains, runs and looks inside attention models on an ordinary
CPU machine, without Python. It reads and writes Hugging Face folders and GGUF
files.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library_package})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/triggers) # ldconfig's
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "Transformer engine (shared library)
The library behind the program heed: tensors with gradients, attention,
models, tokenizers, generation and training.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libheed-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "${library_package} (= ${PROJECT_VERSION}-${HEED_PACKAGE_RELEASE})")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Transformer engine (headers)
Headers, static library, and files for CMake and pkg-config to compile with
heed's library.")
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/package_documents.cmake)
include(CPack)
