# Writes every template of DIR into OUT as rows of a table: {"name", R"(text)"}.
file(GLOB files ${DIR}/*.h)
list(SORT files)
set(text "")
foreach(file ${files})
  get_filename_component(name ${file} NAME)
  file(READ ${file} content)
  # The C of a spec begins with the licence line of its first template; the operations, of which each may come more than
  # once, need not repeat it.
  if(name MATCHES "^op_")
    string(REGEX REPLACE "^/\\* SPDX[^\n]*\n" "" content "${content}")
  endif()
  string(APPEND text "{\"${name}\", R\"cio_text(${content})cio_text\"},\n")
endforeach()
file(WRITE ${OUT} "${text}")
