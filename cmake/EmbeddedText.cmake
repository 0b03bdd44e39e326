# trainyard_embedded_text(<target> <header> <namespace> <function> <file> [<function> <file>...])
#
# Adds a generated source to the target: each function, declared in <header> as `std::string_view Name();`, returns the whole text of its file. The
# source follows when a file changes. Run with -P this file is the command that writes the source.
if(CMAKE_SCRIPT_MODE_FILE)
  set(source "#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n")
  while(PARTS)
    list(POP_FRONT PARTS function file)
    file(READ ${file} text)
    # A delimiter that does not end early; ISO C++ allows 16 characters.
    if(text MATCHES "\\)~trainyard~\"")
      message(FATAL_ERROR "${file} holds the text )~trainyard~\", which ends the literal that it becomes")
    endif()
    string(APPEND source "\nstd::string_view ${function}() { return R\"~trainyard~(${text})~trainyard~\"; }\n")
  endwhile()
  file(WRITE ${OUTPUT} "${source}\n}  // namespace ${NAMESPACE}\n")
  return()
endif()

set(TRAINYARD_EMBEDDED_TEXT ${CMAKE_CURRENT_LIST_FILE})
function(trainyard_embedded_text target header namespace)
  string(REGEX REPLACE "\\.h$" ".cc" output ${CMAKE_BINARY_DIR}/${header})
  set(files)
  set(parts ${ARGN})
  while(parts)
    list(POP_FRONT parts function file)
    list(APPEND files ${file})
  endwhile()
  get_filename_component(folder ${output} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(OUTPUT ${output}
                     COMMAND ${CMAKE_COMMAND} "-DHEADER=${header}" "-DNAMESPACE=${namespace}" "-DOUTPUT=${output}" "-DPARTS=${ARGN}" -P ${TRAINYARD_EMBEDDED_TEXT}
                     DEPENDS ${files} ${TRAINYARD_EMBEDDED_TEXT} VERBATIM)
  target_sources(${target} PRIVATE ${output})
  set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)  # scripts/lint.sh looks at units before anything is built
endfunction()
