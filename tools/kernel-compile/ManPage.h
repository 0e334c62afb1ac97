// The command's manual page, kernel-compile(1).
#pragma once

#include "tools/kernel-compile/Tree.h"

namespace kiln::tool {

std::string manPage(const VerbInfo& root);

} // namespace kiln::tool
