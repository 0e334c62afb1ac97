// Looks over the command line before it is parsed, for what the parser would take in another way
// than it was meant: a misspelt verb or option, an option in the place of another's value.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace kiln::tool {

/// Throws CLI::ValidationError with what is wrong, what is allowed and what is nearest.
void checkArguments(const CLI::App& app, const std::vector<std::string>& arguments);

/// Whether --json is among them: then errors of usage are told as JSON too.
bool wantsJson(const std::vector<std::string>& arguments);

/// The verb that they name, as far as it is known: "kernel-compile cache ls".
std::string verbOf(const CLI::App& app, const std::vector<std::string>& arguments);

} // namespace kiln::tool
