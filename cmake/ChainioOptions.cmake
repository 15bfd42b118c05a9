# Options of the build, and the flags that every target of ours gets.
option(CHAINIO_TESTS "Build the tests" ON)
option(CHAINIO_FUZZ "Build the libFuzzer targets" OFF)
option(CHAINIO_UNITY "Compile several sources of a directory at a time" ON)
set(CHAINIO_SANITIZE "" CACHE STRING "address,undefined or thread; empty for none")

add_library(chainio_flags INTERFACE)
target_include_directories(chainio_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
target_compile_options(chainio_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror)
# Valgrind reads the debugging information of what it runs, and up to 3.19 ends the program at what clang makes of DWARF 5: also somebody
# else's that is linked to a library of ours.
set(CHAINIO_DEBUGGING -fdebug-default-version=4)
target_compile_options(chainio_flags INTERFACE ${CHAINIO_DEBUGGING})

if(CHAINIO_SANITIZE)
  add_compile_options(-fsanitize=${CHAINIO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # The sanitizers' programs are large; GNU ld takes seconds for each.
  add_link_options(-fsanitize=${CHAINIO_SANITIZE} -fuse-ld=lld)
endif()

find_program(CHAINIO_CCACHE ccache)
if(CHAINIO_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CHAINIO_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CHAINIO_CCACHE})
endif()
