# Cross compilation for 64-bit ARM with Debian's crossbuild-essential-arm64 and libraries of the
# foreign architecture (dpkg --add-architecture arm64):
#   cmake --preset aarch64
# With qemu-user installed, the tests run on the machine that built them.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(PKG_CONFIG_EXECUTABLE aarch64-linux-gnu-pkg-config)
find_program(HEED_QEMU NAMES qemu-aarch64-static qemu-aarch64)
if(HEED_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${HEED_QEMU})
endif()
