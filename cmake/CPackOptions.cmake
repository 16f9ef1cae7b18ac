# Read by cpack for each kind of package.
if(CPACK_GENERATOR STREQUAL "DEB")
  # The install scripts see the prefix that the units are to name, and not a folder of cpack's.
  set(CPACK_SET_DESTDIR ON)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY OFF)
  set(CPACK_INSTALL_PREFIX /usr)
  set(CPACK_COMPONENTS_ALL runtime units debian development debian-development)
else()
  # Nobody knows where it will be unpacked: `stageloadctl daemon install` writes units for that.
  set(CPACK_COMPONENTS_ALL runtime zsh development)
  set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
endif()
