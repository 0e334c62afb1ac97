# leave_out(WHAT WHY): something is not built. Told when CMake runs, and by tools/test's summary, which
# reads the file that write_left_out() leaves in the build folder, a line each.
function(leave_out what why)
  message(STATUS "Left out: ${what}: ${why}")
  set_property(GLOBAL APPEND_STRING PROPERTY KILN_LEFT_OUT "${what}: ${why}\n")
endfunction()

function(write_left_out)
  get_property(lines GLOBAL PROPERTY KILN_LEFT_OUT)
  file(WRITE ${PROJECT_BINARY_DIR}/left-out "${lines}")
endfunction()
