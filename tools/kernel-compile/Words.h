// Options whose values are words of a closed list. Help, completion and the manual page show the
// list; another word is a usage error that names it, and the nearest.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace kiln::tool {

using Words = std::function<std::vector<std::string>()>;

/// The check of such an option. The list is made when it is needed: that of the ops takes a moment.
class OneOf : public CLI::Validator {
 public:
  explicit OneOf(std::vector<std::string> words);
  /// `check` may replace the value, an alias by its name; what it says is wrong; empty: nothing.
  OneOf(Words words, std::function<std::string(std::string&)> check);
};

/// Ops that can be made from a shape, dtypes of rows and architectures, as the library has them.
OneOf oneOfOps();
OneOf oneOfDTypes();
OneOf oneOfArchs();
/// Stages whose text a compilation can go on from.
OneOf oneOfStages();

/// The words of such an option; none for another.
std::vector<std::string> wordsOf(const CLI::Option& option);

} // namespace kiln::tool
