// The ways in which a process ends that its own code can choose.
#pragma once

#include <cstdlib>
#include <string>
#include <unistd.h>

/// Ends the process as `how` says; returns for any other word, so that main can return.
inline void leave(const std::string& how) {
  if (how == "exit")
    std::exit(0);
  if (how == "quick")
    std::quick_exit(0);
  if (how == "now")
    ::_exit(0);
}
