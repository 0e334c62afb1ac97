// What of the surroundings is there (driver, GPU, NVRTC, a C++ compiler, a disassembler, places to
// write), and what each absence costs. Never throws for something that is missing.
#pragma once

#include "kiln/kiln.h"

namespace kiln {

struct Finding {
  enum class State { found, missing, broken };
  std::string name; // "NVRTC"
  State state = State::missing;
  std::string detail; // found: version and place; missing: the places searched; broken: why
  std::string cost;   // what does not work without it; empty if found
};

/// `nvrtc` as in CompileOptions.
KILN_API std::vector<Finding> doctor(const std::filesystem::path& nvrtc = {});

} // namespace kiln
