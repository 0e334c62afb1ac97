// See Tree.h.
#include "tools/kernel-compile/Tree.h"

#include "tools/kernel-compile/Words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln::tool {

namespace {

OptionInfo describe(const CLI::Option& option) {
  OptionInfo info;
  info.positional = option.get_positional();
  if (info.positional)
    info.names = {option.get_name(true, false)};
  for (const std::string& name : option.get_snames())
    info.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames())
    info.names.push_back("--" + name);
  const bool isFlag = option.get_items_expected_max() == 0;
  if (!isFlag) {
    const std::string type = option.get_type_name();
    info.value = info.positional ? info.names.front() : type.substr(0, type.find(':'));
    info.words = wordsOf(option);
    info.standard = option.get_default_str();
  }
  info.text = option.get_description();
  info.group = option.get_group();
  for (const CLI::Option* other : option.get_needs())
    info.needs.push_back(other->get_name());
  info.required = option.get_required();
  info.several = option.get_items_expected_max() > 1;
  return info;
}

VerbInfo describe(const CLI::App& app, std::vector<std::string> path) {
  VerbInfo info;
  path.push_back(app.get_name());
  info.path = path;
  info.text = app.get_description();
  info.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options({}))
    if (!option->get_group().empty())
      info.options.push_back(describe(*option));
  for (const CLI::App* verb : app.get_subcommands({}))
    if (!verb->get_group().empty())
      info.verbs.push_back(describe(*verb, path));
  return info;
}

} // namespace

std::string OptionInfo::fullText() const {
  std::string all = text;
  if (!words.empty())
    all += fmt::format(": {}", fmt::join(words, ", "));
  if (!standard.empty())
    all += fmt::format(" [{}]", standard);
  if (!needs.empty())
    all += fmt::format(" (with {})", fmt::join(needs, ", "));
  return all;
}

std::string VerbInfo::fullName() const {
  return fmt::format("{}", fmt::join(path, " "));
}

std::string VerbInfo::synopsis() const {
  std::string all = fullName() + (verbs.empty() ? " [OPTIONS]" : " [OPTIONS] VERB");
  for (const OptionInfo& option : options)
    if (option.positional) {
      const std::string name = option.value + (option.several ? "..." : "");
      all += option.required ? " " + name : " [" + name + "]";
    }
  return all;
}

VerbInfo describe(const CLI::App& app) {
  std::vector<std::string> path;
  for (const CLI::App* parent = app.get_parent(); parent; parent = parent->get_parent())
    path.insert(path.begin(), parent->get_name());
  return describe(app, path);
}

} // namespace kiln::tool
