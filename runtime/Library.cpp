// What loading the library does: torch.ops.kiln for Python, and KILN_ENABLE=1.
#include "kiln/torch.h"

#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <string_view>
#include <torch/library.h>

static void enableFromText(const std::string& options) {
  kiln::enable(kiln::Options::parse(options));
}

TORCH_LIBRARY(kiln, library) {
  library.def("enable(str options='') -> ()", &enableFromText);
  library.def("disable() -> ()", &kiln::disable);
  library.def("wait() -> ()", &kiln::wait);
  library.def("report() -> str", &kiln::report);
}

/// A mistake in the environment must not keep a program from starting: it runs on ATen.
[[maybe_unused]] static const bool enabledAtLoad = [] {
  const char* wanted = std::getenv("KILN_ENABLE");
  if (!wanted || std::string_view(wanted) == "0" || std::string_view(wanted).empty())
    return false;
  try {
    kiln::enable();
    return true;
  } catch (const kiln::Error& error) {
    fmt::print(stderr, "kiln: not enabled: {}\n", error.what());
    return false;
  }
}();
