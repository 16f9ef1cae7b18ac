# Links the archives of gRPC, Protobuf, Abseil and RE2 where their packages have them, as Debian's do,
# instead of their shared libraries. These are some fifty, and to find and bind them takes three
# quarters of the time of `stageloadctl --help` (docs/dependencies.md). The libraries of C beneath
# them stay shared.
#
# All or none, since two copies of one library would not share what they register: where an archive is
# missing, or they do not go together, as in a distribution that is changing over, nothing is changed.

# The value of a property that names a shared library or links some by name, with archives instead;
# of what has no archive in `folder`, the name that is missing.
function(stageload_with_archives value folder out missing)
  set(changed "")
  set(${missing} "" PARENT_SCOPE)
  foreach(item IN LISTS value)
    if(item MATCHES "\\.so[.0-9]*$")
      string(REGEX REPLACE "\\.so[.0-9]*$" ".a" item "${item}")
    elseif(item MATCHES "^(-l)?(re2|absl_[a-z0-9_]+|utf8_range|utf8_validity)$")
      set(item ${folder}/lib${CMAKE_MATCH_2}.a)
    endif()
    if(item MATCHES "^/.*\\.a$" AND NOT EXISTS ${item})
      set(${missing} ${item} PARENT_SCOPE)
    endif()
    list(APPEND changed "${item}")
  endforeach()
  set(${out} "${changed}" PARENT_SCOPE)
endfunction()

# Sets each "target|property" of `keys` to the variable ${state}_<key>, "before" or "after".
function(stageload_set_properties keys state)
  foreach(key IN LISTS keys)
    string(REPLACE "|" ";" parts ${key})
    list(GET parts 0 target)
    list(GET parts 1 property)
    set_property(TARGET ${target} PROPERTY ${property} "${${state}_${key}}")
  endforeach()
endfunction()

function(stageload_link_archives)
  get_directory_property(targets IMPORTED_TARGETS)
  list(FILTER targets INCLUDE REGEX "^(gRPC|protobuf|absl|re2|utf8_range)::")
  # Of programs that write code, and of tests.
  list(FILTER targets EXCLUDE REGEX "plugin|libprotoc|scoped_mock|_test")
  get_filename_component(folder "${Protobuf_LIBRARY}" DIRECTORY)
  if(NOT folder)
    get_target_property(library protobuf::libprotobuf LOCATION)
    get_filename_component(folder "${library}" DIRECTORY)
  endif()
  set(keys "")
  foreach(target IN LISTS targets)
    set(properties INTERFACE_LINK_LIBRARIES IMPORTED_LOCATION)
    get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
    if(configurations)
      list(TRANSFORM configurations PREPEND IMPORTED_LOCATION_)
      list(APPEND properties ${configurations})
    endif()
    foreach(property IN LISTS properties)
      get_target_property(value ${target} ${property})
      if(NOT value)
        continue()
      endif()
      stageload_with_archives("${value}" "${folder}" archives missing)
      if(missing)
        message(STATUS "gRPC's shared libraries are linked: there is no ${missing}")
        return()
      endif()
      if(NOT archives STREQUAL value)
        list(APPEND keys ${target}|${property})
        set(before_${target}|${property} "${value}")
        set(after_${target}|${property} "${archives}")
      endif()
    endforeach()
  endforeach()
  stageload_set_properties("${keys}" after)
  if(keys AND NOT DEFINED STAGELOAD_ARCHIVES_GO_TOGETHER)
    set(CMAKE_TRY_COMPILE_CONFIGURATION Release)
    try_compile(STAGELOAD_ARCHIVES_GO_TOGETHER
      ${CMAKE_BINARY_DIR}/CMakeFiles/archives ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/archives.cc
      LINK_LIBRARIES stageload::grpc protobuf::libprotobuf re2::re2 absl::time
      CXX_STANDARD 20)
  endif()
  if(keys AND STAGELOAD_ARCHIVES_GO_TOGETHER)
    message(STATUS "The archives of gRPC, Protobuf, Abseil and RE2 are linked")
    set(STAGELOAD_ARCHIVES_ARE_LINKED ON PARENT_SCOPE)
    return()
  endif()
  stageload_set_properties("${keys}" before)
  message(STATUS "gRPC's shared libraries are linked: the archives do not go together")
endfunction()
