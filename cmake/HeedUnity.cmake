# heed_unite(VARIABLE NAME [OPTIONS…]): replaces the source files listed in VARIABLE by units of several files each, compiled
# with OPTIONS (HEED_UNITY). Most of a file's compile time goes to headers and templates that its neighbours need,
# too. Files with compile definitions or include folders of their own stay as they are. tools/unity_groups.awk
# says which files may share a unit.
# HEED_UNITY_LINES limits a unit's length; `./dev lint --all`, which reads everything anyway, takes longer ones.
find_program(HEED_AWK awk)
set(HEED_UNITY_LINES 1500 CACHE STRING "Lines of a unit of several source files, at most")
mark_as_advanced(HEED_AWK HEED_UNITY_LINES)

function(heed_unite variable name)
  if(NOT HEED_UNITY OR NOT HEED_AWK)
    return()
  endif()
  set(single)
  set(shared)
  foreach(file IN LISTS ${variable})
    get_source_file_property(definitions ${file} COMPILE_DEFINITIONS)
    get_source_file_property(includes ${file} INCLUDE_DIRECTORIES)
    if(definitions OR includes)
      list(APPEND single ${file})
    else()
      list(APPEND shared ${file})
    endif()
  endforeach()
  execute_process(COMMAND ${HEED_AWK} -v lines=${HEED_UNITY_LINES} -f ${PROJECT_SOURCE_DIR}/tools/unity_groups.awk ${shared}
    OUTPUT_VARIABLE units OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" units "${units}")
  set(number 0)
  foreach(unit IN LISTS units)
    string(REPLACE "|" ";" files "${unit}")
    list(LENGTH files count)
    if(count EQUAL 1)
      list(APPEND single ${files})
      continue()
    endif()
    math(EXPR number "${number} + 1")
    set(path ${PROJECT_BINARY_DIR}/unity/${name}_${number}.cc)
    # By names relative to the unit, so that clones in other folders have the same units and share a compiler cache.
    set(text)
    foreach(file IN LISTS files)
      file(RELATIVE_PATH file ${PROJECT_BINARY_DIR}/unity ${file})
      string(APPEND text "#include \"${file}\"  // NOLINT(bugprone-suspicious-include)\n")
    endforeach()
    file(CONFIGURE OUTPUT ${path} CONTENT "${text}" @ONLY)
    # A local name may be a neighbour's global one; `./dev lint` looks at shadowing in the files that changed.
    set_source_files_properties(${path} PROPERTIES COMPILE_OPTIONS "${ARGN};-Wno-shadow")
    list(APPEND single ${path})
  endforeach()
  # A new definition may change who can share a unit.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/unity_groups.awk)
  set(${variable} ${single} PARENT_SCOPE)
endfunction()

# heed_unite_kernels(VARIABLE NAME FILES file… OPTIONS option…): the same for kernels, each of which Highway compiles once per target:
# the unit as a whole is what it reads again for every target. A file names itself as that when it is read, so the
# unit takes the name back at its end.
function(heed_unite_kernels variable name)
  if(NOT HEED_UNITY)
    return()
  endif()
  cmake_parse_arguments(UNIT "" "" "FILES;OPTIONS" ${ARGN})
  set(path ${PROJECT_BINARY_DIR}/unity/kernels_${name}.cc)
  set(again "#undef HWY_TARGET_INCLUDE\n#define HWY_TARGET_INCLUDE \"kernels_${name}.cc\"\n")
  set(text "${again}#include <hwy/foreach_target.h>\n")
  set(sources ${${variable}})
  foreach(file IN LISTS UNIT_FILES)
    set(file ${CMAKE_CURRENT_SOURCE_DIR}/kernels/${file}.cc)
    list(REMOVE_ITEM sources ${file})
    file(RELATIVE_PATH file ${PROJECT_BINARY_DIR}/unity ${file})
    string(APPEND text "#include \"${file}\"  // NOLINT(bugprone-suspicious-include)\n")
  endforeach()
  file(CONFIGURE OUTPUT ${path} CONTENT "${text}${again}" @ONLY)
  set_source_files_properties(${path} PROPERTIES COMPILE_OPTIONS "${UNIT_OPTIONS};-Wno-shadow"
    INCLUDE_DIRECTORIES ${PROJECT_BINARY_DIR}/unity)
  set(${variable} ${path} ${sources} PARENT_SCOPE)
endfunction()
