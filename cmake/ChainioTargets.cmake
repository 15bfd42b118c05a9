# Most of what it takes to compile a source is for headers and templates that those of a directory share.
function(chainio_at_once name)
  if(CHAINIO_UNITY)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  endif()
endfunction()

# chainio_seldom_run(TARGETS…): what the sanitizers' tests run for moments. Half of the time in which it is compiled for them
# would be the optimizer's.
function(chainio_seldom_run)
  if(CHAINIO_SANITIZE)
    foreach(target IN LISTS ARGN)
      target_compile_options(${target} PRIVATE -O0)
    endforeach()
  endif()
endfunction()

# Where a fuzzer has been is counted in what it is to find its way through. In the unit tests of the same tree, which nobody would
# ask, that took a fifth of the time in which they are compiled.
function(chainio_covered name)
  if(CHAINIO_FUZZ AND NOT CMAKE_CURRENT_SOURCE_DIR MATCHES "^${CMAKE_SOURCE_DIR}/tests/")
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# chainio_library(NAME SOURCES… LINK …): a static library of ours.
function(chainio_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC ${arg_LINK} PRIVATE chainio_flags ${arg_PRIVATE})
  chainio_at_once(${name})
  chainio_covered(${name})
endfunction()

# chainio_tool(NAME SOURCES… LINK …): a program of ours, in <build>/bin.
function(chainio_tool name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINK} chainio_flags)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  chainio_at_once(${name})
  chainio_seldom_run(${name})
endfunction()

# chainio_test(NAME SOURCES… LINK …): a GoogleTest program; every case is a CTest test.
function(chainio_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINK} chainio_flags GTest::gtest GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  chainio_at_once(${name})
  # Half of the time in which a test is compiled would be the optimizer's, and most run for an instant.
  target_compile_options(${name} PRIVATE -O0)
  add_test(NAME ${name} COMMAND ${name})
endfunction()
