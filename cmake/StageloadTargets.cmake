# How every target of ours is built: C++20, warnings as errors, one include root (the top folder).
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(STAGELOAD_SANITIZE "" CACHE STRING "Passed to -fsanitize= for every target, or empty")

find_program(STAGELOAD_CCACHE ccache)
if(STAGELOAD_CCACHE)
  # Paths relative to the checkout, so that a second clone finds what the first has compiled.
  set(settings CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1)
  if(STAGELOAD_MACOS_CROSS)  # a script that is written anew in each clone; it knows the target
    list(APPEND settings CCACHE_COMPILERTYPE=clang
         CCACHE_COMPILERCHECK=string:zig-${CMAKE_CXX_COMPILER_VERSION}-${STAGELOAD_MACOS_ARCH})
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env ${settings} ${STAGELOAD_CCACHE})
endif()
find_program(STAGELOAD_MOLD mold)
if(STAGELOAD_MOLD AND NOT APPLE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
   AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12.1)
  add_link_options(-fuse-ld=mold)
endif()
if(STAGELOAD_SANITIZE)
  add_compile_options(-fsanitize=${STAGELOAD_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer -g1)
  if(STAGELOAD_SANITIZE MATCHES undefined)
    # The three look at each access to a member: half of the time that a test takes to compile. What is
    # null or gone AddressSanitizer sees too.
    add_compile_options(-fno-sanitize=null,alignment,vptr)
  endif()
  add_link_options(-fsanitize=${STAGELOAD_SANITIZE})
endif()

# The warnings that hold for our own code and for nobody else's.
add_library(stageload_warnings INTERFACE)
target_compile_options(stageload_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror
  # Part of -Wconversion to clang and not to g++.
  $<$<CXX_COMPILER_ID:Clang,AppleClang>:-Wno-sign-conversion>)

# stageload_library(<name> SOURCES ... DEPS ...): a room of the daemon or client, as
# stageload_<name> with the alias stageload::<name>. DEPS are the rooms below it.
function(stageload_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(stageload_${name} STATIC ${ARG_SOURCES})
  add_library(stageload::${name} ALIAS stageload_${name})
  target_include_directories(stageload_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(stageload_${name} PUBLIC ${ARG_DEPS} PRIVATE stageload_warnings)
endfunction()

# stageload_program(<file name> SOURCES ... DEPS ...): a program in build/<preset>/bin/.
function(stageload_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} stageload_warnings)
endfunction()

# All that `ctest -L unit` runs, for a preset that runs nothing else.
add_custom_target(unit_tests)

# stageload_test(<name> SOURCES ... DEPS ... [TIMEOUT seconds] [LABELS ...]): a GoogleTest program;
# each of its tests is a ctest of its own, so that ctest can run them side by side.
function(stageload_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  if(STAGELOAD_SANITIZE)
    math(EXPR ARG_TIMEOUT "3 * ${ARG_TIMEOUT}")
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock_main stageload_warnings)
  if(unit IN_LIST ARG_LABELS)
    add_dependencies(unit_tests ${name})
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST
                       PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()

# stageload_bench(<name> SOURCES ... DEPS ...): a Google Benchmark program in build/<preset>/bench/.
function(stageload_bench name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} benchmark::benchmark stageload_warnings)
endfunction()
