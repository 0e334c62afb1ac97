# A stamp of the compiler: the SHA-256 of the names and contents of all that decides what code comes
# out (dialect and codegen, but for the host target, the public headers, and what only loads,
# launches, times or checks), as a header.
#   cmake -DROOT=FOLDER -DOUTPUT=FILE -P SourceHash.cmake
# Included instead, it defines source_hash_files(VARIABLE ROOT), the files that count.
function(source_hash_files variable root)
  set(patterns "")
  foreach(folder dialect codegen)
    foreach(suffix cpp h td cuh)
      list(APPEND patterns ${root}/${folder}/*.${suffix})
    endforeach()
  endforeach()
  file(GLOB_RECURSE files LIST_DIRECTORIES false ${ARGN} RELATIVE ${root} ${patterns})
  foreach(other "(host|include|model|families/[^/]+/cost)/" "backend/(Device|Driver|Executable|Files|Libraries|Npy|Timer|Workload)[.]"
                "family/Shapes[.]"
                "program/(Compare|Doctor|Execute|FirstCheck|Operands|PlainCopy|Tensors|Verify)[.]")
    list(FILTER files EXCLUDE REGEX "^codegen/${other}")
  endforeach()
  list(SORT files)
  set(${variable} ${files} PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  source_hash_files(files ${ROOT})
  set(all "")
  foreach(name IN LISTS files)
    file(SHA256 ${ROOT}/${name} hash)
    string(APPEND all "${name} ${hash}\n")
  endforeach()
  string(SHA256 stamp "${all}")
  file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define KILN_SOURCE_HASH \"${stamp}\"\n")
endif()
