// The options of a command: flags, or a JSON file of the same names that --config reads. What a
// flag means stands beside its name.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace kiln::models {

struct Flag {
  const char* group;
  const char* name;
  std::variant<std::string*, std::int64_t*, double*, bool*> value;
  const char* help;
};

struct Command {
  const char *name, *about, *examples;
};

/// Reads a command line into what the flags point to. False if all is said: `status` is 0 after
/// --help and 2 after a usage error. Throws Error(input) for a file of options that cannot be read.
bool readFlags(const Command& command, const std::vector<Flag>& flags, int argc,
               const char* const* argv, int& status);

/// The values as a JSON object that --config reads, without `resume`, which is a run's own.
std::string textOf(const std::vector<Flag>& flags);

// What values may be. All throw Error(input), with the numbers.
void atLeast(const char* name, std::int64_t value, std::int64_t least);
void inside(const char* name, double value, double from, double to);
void oneOf(const char* name, const std::string& value, const std::vector<std::string>& allowed);

} // namespace kiln::models
