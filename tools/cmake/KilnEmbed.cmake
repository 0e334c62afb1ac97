# embed_text(TARGET files...): an object library that carries text files inside the binary:
#   extern "C" const struct { const char *name, *text; } TARGET_files[];   // ends with nulls
# Names are the paths given, relative to the calling folder. Editing a file rebuilds only this object.
function(embed_text target)
  set(src ${CMAKE_CURRENT_BINARY_DIR}/${target}.S)
  set(asm "")
  set(tab "")
  foreach(f IN LISTS ARGN)
    string(MAKE_C_IDENTIFIER ${f} id)
    string(APPEND asm "t_${id}: .incbin \"${CMAKE_CURRENT_SOURCE_DIR}/${f}\"\n.byte 0\nn_${id}: .asciz \"${f}\"\n")
    string(APPEND tab ".quad n_${id}, t_${id}\n")
  endforeach()
  file(GENERATE OUTPUT ${src} CONTENT ".section .rodata\n${asm}.section .data.rel.ro,\"aw\"\n.balign 8\n.globl ${target}_files\n${target}_files:\n${tab}.quad 0, 0\n.section .note.GNU-stack,\"\",@progbits\n")
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE deps)
  set_source_files_properties(${src} PROPERTIES OBJECT_DEPENDS "${deps}" GENERATED ON)
  add_library(${target} OBJECT ${src})
endfunction()
