// Completions of the command for shells: verbs, options, words of closed lists, files and folders.
#pragma once

#include "tools/kernel-compile/Tree.h"

namespace kiln::tool {

std::string bashCompletion(const VerbInfo& root);
std::string zshCompletion(const VerbInfo& root);
std::string fishCompletion(const VerbInfo& root);

} // namespace kiln::tool
