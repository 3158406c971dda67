# The libraries that heed is made of, one line each. What is said here reaches the compiler, the
# shared library's link line, heedConfig.cmake and heed.pc; the Debian packages stand in
# tools/packages.txt.
#
#   heed_package(NAME TARGET [MODULE])   found by find_package(NAME); TARGET is what to link. MODULE is
#                                        its pkg-config name; header-only libraries have none.
#   heed_module(NAME MODULE)             found by pkg-config as MODULE; linked as PkgConfig::NAME.
#   heed_library(NAME MODULE FILE)       the same for a library whose headers one source FILE includes:
#                                        the compiler's command line of all others stays as it is.
#   heed_headers(MODULE)                 a header that one file includes; nothing to link.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

set(HEED_DEPENDENCIES Threads::Threads) # what libheed links
set(HEED_PACKAGES "")                   # what a user of libheed.a must find, for heedConfig.cmake
set(HEED_MODULES "")                    # the same by pkg-config: NAME=MODULE
set(HEED_PC_MODULES "")                 # all of their pkg-config names

macro(heed_package name target)
  find_package(${name} REQUIRED)
  list(APPEND HEED_DEPENDENCIES ${target})
  list(APPEND HEED_PACKAGES ${name})
  list(APPEND HEED_PC_MODULES ${ARGN})
endmacro()

macro(heed_module name module)
  pkg_check_modules(${name} REQUIRED IMPORTED_TARGET ${module})
  list(APPEND HEED_DEPENDENCIES PkgConfig::${name})
  list(APPEND HEED_MODULES ${name}=${module})
  list(APPEND HEED_PC_MODULES ${module})
endmacro()

macro(heed_library name module file)
  pkg_check_modules(${name} REQUIRED IMPORTED_TARGET ${module})
  list(APPEND HEED_DEPENDENCIES ${${name}_LINK_LIBRARIES})
  list(APPEND HEED_MODULES ${name}=${module})
  list(APPEND HEED_PC_MODULES ${module})
  set(HEED_INCLUDES_OF_${file} ${${name}_INCLUDE_DIRS})
  # Some of Debian 13's modules name /usr/include, which as a folder of its own comes before the compiler's and hides
  # what <cstdlib> includes next.
  list(REMOVE_ITEM HEED_INCLUDES_OF_${file} ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
endmacro()

macro(heed_headers module)
  pkg_check_modules(HEADERS_${module} REQUIRED ${module})
endmacro()

heed_module(HWY libhwy)
# On ARM the kernels are compiled once, for NEON. Highway 1.1 and newer have further NEON targets, which
# would be the same code again. SVE's vectors have no size at compile time and cannot stand in the arrays
# that hold a block of sums (docs/adr/0016-machines.md).
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
  set(HEED_LEFT_OUT "HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128")
  if(HWY_VERSION VERSION_GREATER_EQUAL 1.1)
    string(APPEND HEED_LEFT_OUT "|HWY_NEON|HWY_NEON_BF16")
  endif()
  target_compile_definitions(heed_options INTERFACE "HWY_DISABLED_TARGETS=(${HEED_LEFT_OUT})")
endif()
heed_package(fmt fmt::fmt fmt)
heed_package(nlohmann_json nlohmann_json::nlohmann_json)
heed_module(PCRE2 libpcre2-8)
heed_module(UTF8PROC libutf8proc)
heed_module(SENTENCEPIECE sentencepiece)
heed_package(PNG PNG::PNG libpng)
heed_package(JPEG JPEG::JPEG libjpeg)
heed_library(PANGOCAIRO pangocairo draw/scene_png.cc)
heed_package(ZLIB ZLIB::ZLIB zlib)
heed_package(SQLite3 SQLite::SQLite3 sqlite3)
heed_module(SNDFILE sndfile)
heed_module(MPG123 libmpg123) # MP3, which libsndfile reads with messages of this library on stderr
heed_package(tomlplusplus tomlplusplus::tomlplusplus tomlplusplus)
heed_headers(libxxhash)
find_package(Boost 1.74 REQUIRED) # headers of src/serve/http_*.cc; nothing to link
find_package(CLI11 REQUIRED) # the program only

if(HEED_MPI)
  find_package(MPI COMPONENTS CXX)
endif()
# heed.pc names the libraries themselves: with Requires.private, `pkg-config --cflags heed` would fail where the headers
# of any of them are missing, which a program that links the shared library does not need.
pkg_check_modules(HEED_PC REQUIRED ${HEED_PC_MODULES})
list(JOIN HEED_PC_LDFLAGS " " HEED_PC_STATIC)
