# What `cmake --install` puts where: the programs, libstageload with its headers, and what CMake and
# pkg-config need to find it. Nothing of it knows the prefix, so a tree that is moved still works.
include(CMakePackageConfigHelpers)

install(TARGETS stageloadd stageloadctl stageload-shim RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(CODE "
  file(CREATE_LINK stageloadctl
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/stageload\" SYMBOLIC)
")
install(TARGETS stageload_public EXPORT StageloadTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY client/include/stageload DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Stageload)
install(EXPORT StageloadTargets NAMESPACE Stageload:: DESTINATION ${package_folder})
configure_package_config_file(cmake/StageloadConfig.cmake.in StageloadConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(StageloadConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/StageloadConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/StageloadConfigVersion.cmake
        DESTINATION ${package_folder})

set(pkgconfig_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH prefix_from_pkgconfig /prefix/${pkgconfig_folder} /prefix)
string(REGEX REPLACE "/$" "" prefix_from_pkgconfig ${prefix_from_pkgconfig})
configure_file(cmake/stageload.pc.in stageload.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/stageload.pc DESTINATION ${pkgconfig_folder})
