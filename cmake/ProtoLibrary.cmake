# trainyard_proto(FOLDER NAME): the messages of FOLDER/NAME.proto as the library that FOLDER's path spells with underscores. protoc writes into
# the build folder; code includes "FOLDER/NAME.pb.h". The messages are lite, whatever the file says.
function(trainyard_proto folder name)
  string(REPLACE / _ library ${folder})
  set(out ${CMAKE_BINARY_DIR}/${folder})
  file(MAKE_DIRECTORY ${out})
  add_custom_command(
    OUTPUT ${out}/${name}.pb.cc ${out}/${name}.pb.h
    COMMAND protobuf::protoc --proto_path=${CMAKE_SOURCE_DIR} --cpp_out=lite:${CMAKE_BINARY_DIR} ${folder}/${name}.proto
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
    DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/${name}.proto
    VERBATIM)
  add_library(${library} STATIC ${out}/${name}.pb.cc ${out}/${name}.pb.h)
  target_link_libraries(${library} PUBLIC protobuf::libprotobuf)
  target_include_directories(${library} SYSTEM PUBLIC ${CMAKE_BINARY_DIR})
  set_property(GLOBAL APPEND PROPERTY TRAINYARD_LAYERS "${folder}||")
endfunction()
