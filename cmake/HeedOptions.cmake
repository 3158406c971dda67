# Compiler settings shared by every target of ours.
add_library(heed_options INTERFACE)
target_compile_options(heed_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wno-psabi)
# Whether warnings are errors stands in a file that every command line names, so that turning it on
# or off compiles nothing again: `./dev test` after `./dev quickstart` reuses its objects.
set(HEED_WERROR_FLAGS ${PROJECT_BINARY_DIR}/werror.rsp)
if(HEED_WERROR)
  file(CONFIGURE OUTPUT ${HEED_WERROR_FLAGS} CONTENT "-Werror\n")
else()
  file(CONFIGURE OUTPUT ${HEED_WERROR_FLAGS} CONTENT "\n")
endif()
target_compile_options(heed_options INTERFACE "@${HEED_WERROR_FLAGS}")
# GCC 12 sees overlaps in "literal" + std::string that are not there (its bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(heed_options INTERFACE -Wno-restrict)
endif()
# Clang reports Highway's target region of a header that has no function for one of the targets.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(heed_options INTERFACE -Wno-pragma-clang-attribute)
  # Clang 19 reports what std::stable_sort of libstdc++ 12 itself calls. Clang 14 and GCC look at our own calls.
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 15)
    target_compile_options(heed_options INTERFACE -Wno-deprecated-declarations)
  endif()
endif()
# For code that is compiled more often than it decides the speed.
set(HEED_COLD_OPTIONS "$<$<CONFIG:Release>:-O1>")
# At -O1 GCC 12 sees strings that overlap or overrun where none do (its bugs 105329 and 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND HEED_COLD_OPTIONS -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
endif()
# From GCC 13 on, -O2 sets these switches on x86-64 and -O1 does not; a precompiled header serves both only where they agree.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-munroll-only-small-loops HEED_HAS_UNROLL_ONLY_SMALL_LOOPS)
if(HEED_HAS_UNROLL_ONLY_SMALL_LOOPS)
  list(APPEND HEED_COLD_OPTIONS -munroll-only-small-loops -mvzeroupper)
endif()
check_cxx_compiler_flag(-mearly-ra=all HEED_HAS_EARLY_RA) # the same on aarch64 from GCC 14 on
if(HEED_HAS_EARLY_RA)
  list(APPEND HEED_COLD_OPTIONS -mearly-ra=all)
endif()
# No errno from maths and no traps: both block vectorisation. Nothing that changes results
# (no -ffast-math); contraction is off so that scalar code gives the same bits on every target.
target_compile_options(heed_options INTERFACE -fno-math-errno -fno-trapping-math -ffp-contract=off)
if(NOT CMAKE_SIZEOF_VOID_P EQUAL 8 OR CMAKE_CXX_BYTE_ORDER STREQUAL "BIG_ENDIAN")
  message(FATAL_ERROR "heed needs a 64-bit little-endian machine (x86-64 or aarch64): it maps files of "
    "many gigabytes and reads their numbers where they lie. This compiler is for ${CMAKE_SYSTEM_PROCESSOR}.")
endif()
# Highway picks the best target at run time; the baseline is x86-64-v2 (any x86 since 2009), which
# leaves three targets to compile instead of five.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(heed_options INTERFACE -march=x86-64-v2)
endif()
target_compile_definitions(heed_options INTERFACE HWY_DISABLE_PCLMUL_AES)

# What ./dev coverage counts: library and program. Clang counts the branches of the source, not of the machine code.
option(HEED_COVERAGE "Count the lines and branches of library and program that run (Clang)" OFF)
set(HEED_COUNTED)
if(HEED_COVERAGE)
  # Behind -Xclang, as ccache 4.7 takes no -fprofile-update.
  set(HEED_COUNTED -fprofile-instr-generate -fcoverage-mapping "SHELL:-Xclang -fprofile-update=atomic")
  add_link_options(-fprofile-instr-generate)
endif()

# heed_harden(TARGET): what an attacker may not change in a program that others run.
# - All symbols are bound at start and their table is read-only then (full RELRO).
# - The run path is that of the installed file from the beginning. CMake's own run path of the build
#   folder ends with an empty element, by which the loader searches the current folder for libraries.
# - Packages have none: their libraries are Debian's, in the folders that the loader knows.
function(heed_harden target)
  target_link_options(${target} PRIVATE -Wl,-z,relro,-z,now,-z,noexecstack)
  set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
  if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set_target_properties(${target} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  endif()
endfunction()

# Stack protector, checked library calls and control-flow protection: for packages, where the whole
# library is built once. Off while developing, so that objects of earlier builds are used again.
option(HEED_HARDENED "Compile with stack protector, _FORTIFY_SOURCE=2 and control-flow protection" OFF)
if(HEED_HARDENED)
  target_compile_options(heed_options INTERFACE -fstack-protector-strong -U_FORTIFY_SOURCE
    -D_FORTIFY_SOURCE=2)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(heed_options INTERFACE -fcf-protection=full)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
    target_compile_options(heed_options INTERFACE -mbranch-protection=standard)
  endif()
endif()
