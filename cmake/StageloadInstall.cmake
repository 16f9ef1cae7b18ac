# What `cmake --install` puts where: the programs with their completions, manual pages, units and docs;
# libstageload with its headers, and what CMake and pkg-config need to find it. Nothing but the units
# knows the prefix, so a tree that is moved still works.
#
# Components, for cmake/StageloadPackage.cmake: runtime, development; units and zsh, which go
# elsewhere or nowhere in some packages; debian, which is in Debian's package only.
include(CMakePackageConfigHelpers)

# A symbolic link in a folder below the prefix.
function(install_link folder to name component)
  install(CODE "
    file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}\")
    file(CREATE_LINK ${to} \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}/${name}\" SYMBOLIC)
  " COMPONENT ${component})
endfunction()

install(TARGETS stageloadd stageloadctl stageload-shim
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
install_link(${CMAKE_INSTALL_BINDIR} stageloadctl stageload runtime)

# Each shell loads a file by the name of the command; zsh's names all its commands itself.
set(shell ${PROJECT_SOURCE_DIR}/client/ctl/shell)
set(bash_folder ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
set(fish_folder ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES ${shell}/stageloadctl.bash DESTINATION ${bash_folder} RENAME stageloadctl
        COMPONENT runtime)
install_link(${bash_folder} stageloadctl stageload runtime)
install(FILES ${shell}/stageloadctl.fish DESTINATION ${fish_folder} COMPONENT runtime)
install_link(${fish_folder} stageloadctl.fish stageload.fish runtime)
install(FILES ${shell}/_stageloadctl DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
        COMPONENT zsh)
# Debian's zsh looks for those of packages here.
install(FILES ${shell}/_stageloadctl DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions
        COMPONENT debian EXCLUDE_FROM_ALL)

set(manual ${PROJECT_SOURCE_DIR}/man)
install(FILES ${manual}/stageloadd.1 ${manual}/stageload-shim.1
        DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT runtime)
install(FILES ${manual}/stageload-config.5
        DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 COMPONENT runtime)
if(TARGET manual)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/man/stageloadctl.1
          DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT runtime)
  install_link(${CMAKE_INSTALL_MANDIR}/man1 stageloadctl.1 stageload.1 runtime)
endif()

if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  configure_file(cmake/InstallUnits.cmake.in InstallUnits.cmake @ONLY)
  install(SCRIPT ${CMAKE_CURRENT_BINARY_DIR}/InstallUnits.cmake COMPONENT units)
endif()

install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
# Of what is compiled or linked into the programs, as Debian's packages have them.
foreach(package libabsl-dev libcli11-dev libgrpc-dev libprotobuf-dev libre2-dev nlohmann-json3-dev)
  if(EXISTS /usr/share/doc/${package}/copyright)
    install(FILES /usr/share/doc/${package}/copyright
            DESTINATION ${CMAKE_INSTALL_DOCDIR}/licenses RENAME ${package} COMPONENT runtime)
  endif()
endforeach()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright
        COMPONENT debian EXCLUDE_FROM_ALL)

install(TARGETS stageload_public EXPORT StageloadTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY client/include/stageload DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT development FILES_MATCHING PATTERN "*.h")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libstageload-dev RENAME copyright
        COMPONENT debian-development EXCLUDE_FROM_ALL)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Stageload)
install(EXPORT StageloadTargets NAMESPACE Stageload:: DESTINATION ${package_folder}
        COMPONENT development)
configure_package_config_file(cmake/StageloadConfig.cmake.in StageloadConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(StageloadConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/StageloadConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/StageloadConfigVersion.cmake
        DESTINATION ${package_folder} COMPONENT development)

set(pkgconfig_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH prefix_from_pkgconfig /prefix/${pkgconfig_folder} /prefix)
string(REGEX REPLACE "/$" "" prefix_from_pkgconfig ${prefix_from_pkgconfig})
configure_file(cmake/stageload.pc.in stageload.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/stageload.pc DESTINATION ${pkgconfig_folder}
        COMPONENT development)
