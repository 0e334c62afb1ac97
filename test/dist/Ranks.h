// For tests that run in several ranks at once: all ranks run the same tests in the same order, in
// one group. A rank whose expectation fails says so; the launcher returns its exit code.
#pragma once

#include "kiln/dist/group.h"

#include <gtest/gtest.h>

namespace kiln::dist {

/// Of this run. Its time limit is short, so that a rank that is missed fails the test soon.
std::shared_ptr<Group> ranks();

} // namespace kiln::dist
