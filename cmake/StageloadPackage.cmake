# What `cpack` makes: a tar.gz to be unpacked anywhere, and on Debian and its like two packages: the
# programs, and the library for those who build against it.
set(CPACK_PACKAGE_NAME stageload)
set(CPACK_PACKAGE_VENDOR stageload)
set(CPACK_PACKAGE_CONTACT stageload)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_RESOURCE_FILE_README ${PROJECT_SOURCE_DIR}/README.md)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_GENERATOR TGZ)
find_program(STAGELOAD_DPKG_SHLIBDEPS dpkg-shlibdeps)
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND STAGELOAD_DPKG_SHLIBDEPS)
  list(APPEND CPACK_GENERATOR DEB)
endif()

set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_STAGELOAD_PACKAGE_NAME stageload)
set(CPACK_DEBIAN_STAGELOAD_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_STAGELOAD_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_STAGELOAD_PACKAGE_SUGGESTS "bash-completion, gnuplot-nox")
set(CPACK_DEBIAN_STAGELOAD_DESCRIPTION
"stageloadd watches the memory and the swap of a machine, starts a command
when there is room for it, and stops the one that drives the machine into
swap. stageloadctl queues, guards, follows and explains commands.
.
Nothing runs until it is used, and then only for the user who uses it.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libstageload-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
# What StageloadConfig.cmake and stageload.pc ask for.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libgrpc++-dev, libprotobuf-dev, libabsl-dev")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
"The C++ library: for programs that take a lease for each stage that needs
much memory, mark what they do and watch the machine.")

configure_file(cmake/CPackOptions.cmake CPackOptions.cmake COPYONLY)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_BINARY_DIR}/CPackOptions.cmake)

include(CPack)
include(CPackComponent)
cpack_add_component_group(stageload)
cpack_add_component_group(development)
foreach(component runtime units zsh debian)
  cpack_add_component(${component} GROUP stageload)
endforeach()
foreach(component development debian-development)
  cpack_add_component(${component} GROUP development)
endforeach()
