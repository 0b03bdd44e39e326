# Checks that the objects of one instruction set define no weak symbol, as inline functions and
# templates are. The linker could merge it with another object's symbol. Such a symbol, compiled for
# a newer processor, would run on an older one. Run as: cmake -DNM=<nm> -DOBJECTS=<a|b|…> -P
# KernelSymbols.cmake
cmake_minimum_required(VERSION 3.25)
string(REPLACE "|" ";" objects "${OBJECTS}")
set(bad 0)
foreach(object IN LISTS objects)
  execute_process(COMMAND ${NM} --demangle --defined-only ${object} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]* [WVwvu] [^\n]*" weak "${symbols}")
  foreach(symbol IN LISTS weak)
    message("${object}: ${symbol}")
    math(EXPR bad "${bad}+1")
  endforeach()
endforeach()
if(bad)
  message(FATAL_ERROR "${bad} symbols of kernel objects may be merged with others'; keep them in an anonymous namespace")
endif()
list(LENGTH objects count)
message("kernel symbols: ${count} objects hold")
