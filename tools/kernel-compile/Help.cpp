// See Help.h.
#include "tools/kernel-compile/Help.h"

#include "tools/kernel-compile/Table.h"
#include "tools/kernel-compile/Terminal.h"
#include "tools/kernel-compile/Tree.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln::tool {

namespace {

constexpr std::size_t kNames = 28;

std::size_t helpWidth() {
  constexpr std::size_t least = 50, most = 100;
  const std::size_t terminal = columns();
  return terminal == 0 ? most : std::clamp(terminal, least, most);
}

/// A name and, in the column beside it or on the next line, its text.
std::string entry(const std::string& name, const std::string& text) {
  const std::string indent(kNames, ' ');
  std::string out = "  " + name;
  bool isFirst = out.size() + 2 <= kNames;
  if (isFirst)
    out.resize(kNames, ' ');
  else
    out += "\n";
  for (const std::string& line : wrapped(text, helpWidth() - kNames)) {
    out += (isFirst ? "" : indent) + line + "\n";
    isFirst = false;
  }
  return out;
}

std::string nameOf(const OptionInfo& option) {
  if (option.positional)
    return option.value + (option.several ? "..." : "");
  return fmt::format("{}{}{}", fmt::join(option.names, ", "), option.value.empty() ? "" : " ",
                     option.value);
}

std::string entriesOf(const VerbInfo& verb) {
  std::vector<std::string> groups;
  for (const OptionInfo& option : verb.options)
    if (std::ranges::find(groups, option.group) == groups.end())
      groups.push_back(option.group);
  std::string out;
  for (const std::string& group : groups) {
    out += "\n" + styled(Style::bold, group + ":") + "\n";
    for (bool positional : {true, false})
      for (const OptionInfo& option : verb.options)
        if (option.group == group && option.positional == positional)
          out += entry(nameOf(option), option.fullText());
  }
  if (!verb.verbs.empty())
    out += "\n" + styled(Style::bold, "Verbs:") + "\n";
  for (const VerbInfo& one : verb.verbs)
    out += entry(one.name(), one.text);
  return out;
}

} // namespace

std::string Help::make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const {
  const VerbInfo verb = describe(*app);
  std::string out = verb.text + "\n" + "Usage: " + verb.synopsis() + "\n" + entriesOf(verb);
  if (!verb.footer.empty())
    out += "\n" + verb.footer + "\n";
  return out;
}

} // namespace kiln::tool
