# The names that device/*.cuh declare for all, as the literal of a header: no argument of a kernel may
# have one of them, since the kernel may call what it names.
#   cmake -DOUTPUT=FILE -DHEADERS="a.cuh b.cuh" -P DeviceNames.cmake
# Heads of declarations begin in a line's first column; what is declared within them is indented.
set(names "")
separate_arguments(HEADERS UNIX_COMMAND "${HEADERS}")
foreach(header IN LISTS HEADERS)
  file(READ ${header} text)
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REPLACE ";" "@" text "${text}") # no separator of lists
  string(REPLACE "[" "(" text "${text}") # nor a bracket of them
  string(REPLACE "]" ")" text "${text}")
  string(REGEX MATCHALL "\n[A-Za-z][^@{]*[@{]" heads "${text}")
  foreach(head IN LISTS heads)
    set(name "")
    if(head MATCHES "KILN_(DEVICE|OUTLINE)[^(]*[ \n*&]([A-Za-z_0-9]+)\\(")
      set(name ${CMAKE_MATCH_2})
    elseif(head MATCHES "using ([A-Za-z_0-9]+) =")
      set(name ${CMAKE_MATCH_1})
    elseif(head MATCHES "constexpr [^=]*[ *&]([A-Za-z_0-9]+)( =|@|{|\\()")
      set(name ${CMAKE_MATCH_1})
    elseif(NOT head MATCHES "->|constexpr" AND head MATCHES ".*(struct|class|enum) (alignas[^{]*\\) )?([A-Za-z_0-9]+)") # the last, behind a template's
      set(name ${CMAKE_MATCH_3})
    endif()
    list(APPEND names ${name})
  endforeach()
endforeach()
list(REMOVE_DUPLICATES names)
list(FILTER names EXCLUDE REGEX "^operator")
list(SORT names)
set(text "")
foreach(name IN LISTS names)
  string(APPEND text "\"${name} \"\n")
endforeach()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${text}")
