// Skipping what this machine cannot do.
#pragma once

#include "kiln/kiln.h"

#include <gtest/gtest.h>

namespace kiln::test {

/// Runs it; without a C++ compiler or NVRTC the test is skipped by name.
template <class Body> void skipIfUnavailable(Body body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unavailable)
      throw;
    GTEST_SKIP() << error.what();
  }
}

} // namespace kiln::test
