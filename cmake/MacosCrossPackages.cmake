# Stands in for find_package where macOS is cross-compiled for (cmake/MacosCross.cmake): Debian's
# libraries are of no use there, their headers are. Abseil and GoogleTest are compiled from source. A
# program that needs any other library is linked with that library's symbols left open, which
# scripts/macos_open_symbols.py then looks through: none may be ours.
find_package(Threads REQUIRED)
set(STAGELOAD_ABSEIL "" CACHE PATH "The source of the Abseil whose headers libabsl-dev has")

# The programs of this machine that write code.
foreach(program protobuf::protoc=protoc gRPC::grpc_cpp_plugin=grpc_cpp_plugin)
  string(REPLACE "=" ";" pair ${program})
  list(GET pair 0 target)
  list(GET pair 1 name)
  find_program(STAGELOAD_${name} ${name} REQUIRED)
  add_executable(${target} IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${STAGELOAD_${name}})
endforeach()

# stageload_headers(<target> <name in /usr/include>...): a target that has these headers and no other
# of this machine's: /usr/include itself would bring glibc's.
function(stageload_headers target)
  string(MAKE_C_IDENTIFIER ${target} folder)
  set(folder ${CMAKE_BINARY_DIR}/headers/${folder})
  file(MAKE_DIRECTORY ${folder})
  foreach(name IN LISTS ARGN)
    if(NOT EXISTS /usr/include/${name})
      message(FATAL_ERROR "/usr/include/${name} is missing: run scripts/install_dependencies.sh")
    endif()
    file(CREATE_LINK /usr/include/${name} ${folder}/${name} SYMBOLIC)
  endforeach()
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} SYSTEM INTERFACE ${folder})
endfunction()

# The same for a library that is not all headers: who links it has open symbols, or with
# STAGELOAD_SYNTAX_ONLY is only looked through by the compiler.
function(stageload_open_library target)
  stageload_headers(${target} ${ARGN})
  if(STAGELOAD_SYNTAX_ONLY)
    target_compile_definitions(${target} INTERFACE STAGELOAD_SYNTAX_ONLY)
    target_link_options(${target} INTERFACE -DSTAGELOAD_SYNTAX_ONLY)
  else()
    target_link_options(${target} INTERFACE -Wl,-undefined,dynamic_lookup)
  endif()
endfunction()

stageload_headers(CLI11::CLI11 CLI)
stageload_headers(nlohmann_json::nlohmann_json nlohmann)
stageload_headers(tomlplusplus::tomlplusplus toml++)
stageload_open_library(protobuf::libprotobuf google)
stageload_open_library(gRPC::grpc++ grpc grpcpp grpc++)
stageload_open_library(re2::re2 re2)
stageload_open_library(spdlog::spdlog spdlog fmt)
target_compile_definitions(spdlog::spdlog INTERFACE SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL)
stageload_open_library(SQLiteCpp SQLiteCpp sqlite3.h)
stageload_open_library(stageload_curses_headers curses.h ncurses_dll.h term.h unctrl.h)
add_library(stageload::curses ALIAS stageload_curses_headers)

add_library(stageload::grpc ALIAS gRPC::grpc++)

set(ABSL_PROPAGATE_CXX_STD ON)
set(ABSL_ENABLE_INSTALL OFF)
# Its clock asks CoreFoundation for the local time zone.
set(CoreFoundation ${CMAKE_CURRENT_LIST_DIR}/macos/CoreFoundation.tbd CACHE FILEPATH "" FORCE)
add_subdirectory(${STAGELOAD_ABSEIL} ${CMAKE_BINARY_DIR}/abseil EXCLUDE_FROM_ALL SYSTEM)
target_include_directories(absl_time_zone SYSTEM PRIVATE ${CMAKE_CURRENT_LIST_DIR}/macos/include)
target_link_libraries(gRPC::grpc++ INTERFACE
  protobuf::libprotobuf absl::function_ref absl::status absl::statusor absl::strings
  absl::synchronization absl::time)

if(STAGELOAD_TESTS)
  set(INSTALL_GTEST OFF)
  add_subdirectory(/usr/src/googletest ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL SYSTEM)
  stageload_open_library(benchmark::benchmark benchmark)
  include(GoogleTest)
endif()
