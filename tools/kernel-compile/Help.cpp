// See Help.h.
#include "tools/kernel-compile/Help.h"

#include "tools/kernel-compile/Exits.h"
#include "tools/kernel-compile/Table.h"
#include "tools/kernel-compile/Terminal.h"
#include "tools/kernel-compile/Tree.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sstream>

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

/// In the order in which the groups came, the options that have none of their own last.
std::vector<std::string> groupsOf(const VerbInfo& verb) {
  constexpr std::string_view general = "Options"; // the parser's name for no group
  std::vector<std::string> groups;
  for (bool isGeneral : {false, true})
    for (const OptionInfo& option : verb.options)
      if ((option.group == general) == isGeneral &&
          std::ranges::find(groups, option.group) == groups.end())
        groups.push_back(option.group);
  return groups;
}

std::string headed(const std::string& title, const std::string& entries) {
  return entries.empty() ? "" : "\n" + styled(Style::bold, title + ":") + "\n" + entries;
}

std::string entriesOf(const VerbInfo& verb) {
  std::string verbs, out;
  for (const VerbInfo& one : verb.verbs)
    verbs += entry(one.name(), one.text);
  out = headed("Verbs", verbs);
  for (const std::string& group : groupsOf(verb)) {
    std::string entries, help;
    for (bool positional : {true, false})
      for (const OptionInfo& option : verb.options)
        if (option.group == group && option.positional == positional)
          (option.isHelp() ? help : entries) += entry(nameOf(option), option.fullText());
    out += headed(group, entries + help);
  }
  return out;
}

/// Paragraphs are wrapped, examples are not.
std::string folded(const std::string& text) {
  std::istringstream lines(text);
  std::string out, line;
  while (std::getline(lines, line))
    out += line.starts_with(' ') ? line + "\n"
                                 : fmt::format("{}\n", fmt::join(wrapped(line, helpWidth()), "\n"));
  return out;
}

std::string exitCodes() {
  std::vector<std::string> codes;
  for (const Exit& exit : kExits)
    codes.push_back(fmt::format("{} {}", exit.code, exit.meaning));
  return fmt::format("Exit codes: {}.", fmt::join(codes, ", "));
}

} // namespace

std::string Help::make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const {
  const VerbInfo verb = describe(*app);
  std::string out = folded(verb.text) + "Usage: " + verb.synopsis() + "\n" + entriesOf(verb);
  if (!verb.footer.empty())
    out += "\n" + folded(verb.footer);
  if (verb.path.size() == 1)
    out += folded(exitCodes());
  return out;
}

} // namespace kiln::tool
