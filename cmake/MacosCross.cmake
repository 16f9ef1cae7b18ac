# Toolchain file: cross-compiles for macOS with zig, which brings clang, libc++ and the headers and
# symbol list of libSystem. scripts/macos_cross_check.sh puts the tools into build/macos/<arch> first
# and then configures the presets macos-arm64 and macos-x86_64.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR ${STAGELOAD_MACOS_ARCH})
set(STAGELOAD_MACOS_CROSS ON)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES STAGELOAD_MACOS_ARCH STAGELOAD_MACOS_TOOLS)

set(CMAKE_C_COMPILER ${STAGELOAD_MACOS_TOOLS}/${STAGELOAD_MACOS_ARCH}/cc)
set(CMAKE_CXX_COMPILER ${STAGELOAD_MACOS_TOOLS}/${STAGELOAD_MACOS_ARCH}/c++)
set(CMAKE_AR ${STAGELOAD_MACOS_TOOLS}/${STAGELOAD_MACOS_ARCH}/ar CACHE FILEPATH "")
set(CMAKE_RANLIB ${STAGELOAD_MACOS_TOOLS}/${STAGELOAD_MACOS_ARCH}/ranlib CACHE FILEPATH "")
set(CMAKE_INSTALL_NAME_TOOL true CACHE FILEPATH "")  # CMake insists; nothing is installed

# Nothing of this machine's own: its headers are linked one by one, its libraries not at all.
set(CMAKE_FIND_ROOT_PATH ${CMAKE_CURRENT_LIST_DIR}/macos)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
