// See Words.h.
#include "tools/kernel-compile/Words.h"

#include "dialect/DidYouMean.h"
#include "kiln/kiln.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln::tool {

namespace {

std::string refusal(const std::string& value, const std::vector<std::string>& words) {
  if (std::ranges::find(words, value) != words.end())
    return "";
  return fmt::format("'{}' is none of {}{}", printable(value), fmt::join(words, ", "),
                     didYouMean(value, words));
}

/// What the library says of a value that it does not take.
template <class Parse> std::string errorOf(const Parse& parse) {
  try {
    parse();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

} // namespace

OneOf::OneOf(Words words, std::function<std::string(std::string&)> check) {
  desc_function_ = [words] { return fmt::format("{{{}}}", fmt::join(words(), ",")); };
  func_ = std::move(check);
}

OneOf::OneOf(std::vector<std::string> words)
    : OneOf([words] { return words; },
            [words](std::string& value) { return refusal(value, words); }) {}

OneOf oneOfOps() {
  return {Module::ops, [](std::string& value) { return refusal(value, Module::ops()); }};
}

OneOf oneOfDTypes() {
  const auto words = [] {
    std::vector<std::string> names;
    for (DType dtype : {DType::f32, DType::bf16, DType::f16})
      names.emplace_back(name(dtype));
    return names;
  };
  return {words,
          [](std::string& value) { return errorOf([&] { value = name(parseDType(value)); }); }};
}

OneOf oneOfArchs() {
  return {archNames, [](std::string& value) { return errorOf([&] { value = parseArch(value); }); }};
}

OneOf oneOfStages() {
  std::vector<std::string> names;
  for (Stage stage : {Stage::fused, Stage::scheduled, Stage::emittable, Stage::cuda})
    names.emplace_back(name(stage));
  return OneOf(names);
}

std::vector<std::string> wordsOf(const CLI::Option& option) {
  const std::string type = option.get_type_name(); // "NAME:{bf16,f16}"
  const std::size_t begin = type.find(":{");
  if (begin == std::string::npos || !type.ends_with('}'))
    return {};
  return CLI::detail::split(type.substr(begin + 2, type.size() - begin - 3), ',');
}

} // namespace kiln::tool
