# chainio_small_tool(NAME SOURCES… LIBRARIES…): a static program that is there within a tenth of a millisecond, since musl asks
# the processor nothing at its start (docs/decisions/0027). The sources of the LIBRARIES, which are ours, are compiled for it a
# second time, for musl and without the compiled part of the C++ library. Where that cannot be, and under the sanitizers, it is
# linked as any other program, statically where possible.
find_path(CHAINIO_MUSL_HEADERS features.h PATHS /usr/include/x86_64-linux-musl NO_DEFAULT_PATH)
find_library(CHAINIO_MUSL libc.a PATHS /usr/lib/x86_64-linux-musl NO_DEFAULT_PATH)
set(CHAINIO_SMALL_SUPPORT ${CMAKE_SOURCE_DIR}/tools/chainio/start/small)

# The kernel's headers and those that need no library, in a folder without glibc's.
set(small_headers ${CMAKE_BINARY_DIR}/small-headers)
file(MAKE_DIRECTORY ${small_headers})
foreach(header linux asm asm-generic xxhash.h xxh3.h)
  find_path(small_place_of_${header} ${header} PATHS /usr/include /usr/include/${CMAKE_LIBRARY_ARCHITECTURE} NO_CACHE)
  if(small_place_of_${header})
    file(CREATE_LINK ${small_place_of_${header}}/${header} ${small_headers}/${header} SYMBOLIC)
  endif()
endforeach()

set(small_flags -Os -fno-exceptions -fno-rtti -fno-threadsafe-statics -ffunction-sections -fdata-sections -nostdlibinc)
foreach(folder ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
  if(folder MATCHES "/c\\+\\+")
    list(APPEND small_flags -isystem${folder})
  endif()
endforeach()
list(APPEND small_flags -isystem${CHAINIO_MUSL_HEADERS} -isystem${small_headers} -include ${CHAINIO_SMALL_SUPPORT}/headers.h)
get_filename_component(small_libraries "${CHAINIO_MUSL}" DIRECTORY)
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-libgcc-file-name OUTPUT_VARIABLE small_libgcc OUTPUT_STRIP_TRAILING_WHITESPACE)
set(small_link -static -nostdlib -nostartfiles -Wl,--gc-sections ${small_libraries}/crt1.o ${small_libraries}/crti.o)
set(small_end ${CHAINIO_MUSL} ${small_libgcc} ${small_libraries}/crtn.o)

# Adds a library's sources, and what it defines for them, to two lists.
function(chainio_sources_of library to_sources to_definitions)
  get_target_property(names ${library} SOURCES)
  get_target_property(folder ${library} SOURCE_DIR)
  get_target_property(defined ${library} COMPILE_DEFINITIONS)
  list(TRANSFORM names PREPEND ${folder}/)
  set(${to_sources} ${${to_sources}} ${names} PARENT_SCOPE)
  if(defined)
    set(${to_definitions} ${${to_definitions}} ${defined} PARENT_SCOPE)
  endif()
endfunction()

function(chainio_usual_tool name)
  chainio_tool(${name} ${ARGN})
  if(NOT CHAINIO_SANITIZE)
    target_link_options(${name} PRIVATE -static)
  endif()
endfunction()

function(chainio_small_tool name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  set(sources ${CHAINIO_SMALL_SUPPORT}/standard_library.cpp)
  set(definitions _GNU_SOURCE)
  list(TRANSFORM arg_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE own)
  foreach(library ${arg_LIBRARIES})
    chainio_sources_of(${library} sources definitions)
  endforeach()
  list(TRANSFORM definitions PREPEND -D OUTPUT_VARIABLE defines)
  if(CHAINIO_MUSL AND CHAINIO_MUSL_HEADERS AND NOT CHAINIO_SANITIZE AND NOT CHAINIO_SMALL)
    # What could not be linked before is tried again: it may have been an error in the sources, mended since.
    unset(CHAINIO_SMALL CACHE)
    message(STATUS "Whether ${name} can be linked with musl")
    set(tried ${small_flags} ${defines} -I${CMAKE_SOURCE_DIR} -I${CMAKE_BINARY_DIR}/generated)
    list(TRANSFORM tried REPLACE "^.* .*$" "'\\0'") # folders may have blanks in their names
    try_compile(CHAINIO_SMALL SOURCES ${own} ${sources}
      COMPILE_DEFINITIONS ${tried}
      LINK_OPTIONS ${small_link} LINK_LIBRARIES ${small_end} OUTPUT_VARIABLE output CXX_STANDARD 23)
    if(NOT CHAINIO_SMALL)
      message(STATUS "It cannot: ${output}")
    endif()
  endif()
  if(NOT CHAINIO_SMALL)
    chainio_usual_tool(${name} SOURCES ${arg_SOURCES} LINK ${arg_LIBRARIES})
    return()
  endif()
  add_executable(${name} ${own} ${sources})
  target_compile_options(${name} PRIVATE ${small_flags})
  target_compile_definitions(${name} PRIVATE ${definitions})
  target_link_options(${name} PRIVATE ${small_link})
  target_link_libraries(${name} PRIVATE chainio_flags ${small_end})
  # The same sources, as any other program has them, are in the list for clang-tidy already.
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin EXPORT_COMPILE_COMMANDS OFF)
  # What a machine gets that has no musl is linked here, too, so that it can be.
  if(CHAINIO_TESTS)
    chainio_usual_tool(${name}-usual SOURCES ${arg_SOURCES} LINK ${arg_LIBRARIES})
    set_target_properties(${name}-usual PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  endif()
endfunction()
