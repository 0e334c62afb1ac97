// See Completion.h. Each shell gets one list a verb; what is the same for all commands (finding the
// verb, completing files) is fixed text around them.
#include "tools/kernel-compile/Completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln::tool {

namespace {

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at)) {
    text.replace(at, what.size(), by);
    at += by.size();
  }
  return text;
}

/// Between single quotes of a shell.
std::string inQuotes(const std::string& text) {
  return replaced(text, "'", R"('\'')");
}

/// "cache ls": how the lists below name a verb; empty: the command itself.
std::string wordsAfterCommand(const VerbInfo& verb) {
  return fmt::format("{}", fmt::join(verb.path.begin() + 1, verb.path.end(), " "));
}

std::vector<std::string> namesOf(const std::vector<VerbInfo>& verbs) {
  std::vector<std::string> names;
  for (const VerbInfo& verb : verbs)
    names.push_back(verb.name());
  return names;
}

std::string bashKind(const OptionInfo& option) {
  return !option.words.empty()  ? fmt::format("words=\"{}\"", fmt::join(option.words, " "))
         : option.takesFile()   ? "kind=files"
         : option.takesFolder() ? "kind=folders"
                                : "kind=nothing";
}

std::string bashCase(const VerbInfo& verb) {
  std::vector<std::string> names;
  std::string values, positional;
  for (const OptionInfo& option : verb.options) {
    if (option.positional) {
      positional = option.takesFile() ? "files" : positional;
      continue;
    }
    names.insert(names.end(), option.names.begin(), option.names.end());
    if (!option.value.empty())
      values += fmt::format("        {}) {} ;;\n", fmt::join(option.names, "|"), bashKind(option));
  }
  return fmt::format("    \"{}\")\n      options=\"{}\" verbs=\"{}\" others=\"{}\"\n{}      ;;\n",
                     wordsAfterCommand(verb), fmt::join(names, " "),
                     fmt::join(namesOf(verb.verbs), " "), positional,
                     values.empty() ? "" : "      case $previous in\n" + values + "      esac\n");
}

constexpr const char* kBashHead =
    R"(# Completion of kernel-compile for bash; printed by 'kernel-compile generate bash'.
_kernel_compile() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local verb= options= verbs= others= words= kind= prefix= word i
  if [[ $current == = ]]; then # bash parts '--option=value' at the '='
    current=
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD-2]}
  elif [[ $current == --*=* ]]; then
    previous=${current%%=*} prefix=${current%%=*}= current=${current#*=}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word="${verb:+$verb }${COMP_WORDS[i]}"
    case $word in
)";

constexpr const char* kBashTail = R"(  esac
  if [[ -n $words ]]; then
    COMPREPLY=($(compgen -P "$prefix" -W "$words" -- "$current"))
  elif [[ -z $kind && $current == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$current"))
  elif [[ -z $kind && -n $verbs ]]; then
    COMPREPLY=($(compgen -W "$verbs" -- "$current"))
  elif [[ ${kind:-$others} == folders ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -P "$prefix" -d -- "$current")
  elif [[ ${kind:-$others} == files ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -P "$prefix" -f -- "$current")
  fi
}
complete -F _kernel_compile kernel-compile
)";

/// In a list of zsh's _arguments.
std::string zshText(const OptionInfo& option) {
  std::string text = option.text;
  for (std::string_view special : {"\\", "[", "]", ":"})
    text = replaced(text, special, "\\" + std::string(special));
  return inQuotes(text);
}

std::string zshValue(const OptionInfo& option) {
  if (option.value.empty())
    return "";
  return ":" + option.value + ":" +
         (!option.words.empty()  ? fmt::format("({})", fmt::join(option.words, " "))
          : option.takesFile()   ? "_files"
          : option.takesFolder() ? "_files -/"
                                 : "");
}

std::string zshOption(const OptionInfo& option) {
  if (option.positional)
    return fmt::format("    '{}{}'", option.several ? "*" : "", zshValue(option));
  std::vector<std::string> specs;
  for (const std::string& name : option.names)
    specs.push_back(
        fmt::format("    '{}{}{}[{}]{}'",
                    option.several ? "*" : fmt::format("({})", fmt::join(option.names, " ")), name,
                    option.value.empty()     ? ""
                    : name.starts_with("--") ? "="
                                             : "+",
                    zshText(option), zshValue(option)));
  return fmt::format("{}", fmt::join(specs, " \\\n"));
}

std::string zshFunction(const VerbInfo& verb) {
  std::string out;
  for (const VerbInfo& one : verb.verbs)
    out += zshFunction(one);
  const std::string name = replaced(fmt::format("_{}", fmt::join(verb.path, "_")), "-", "_");
  std::vector<std::string> options;
  for (const OptionInfo& option : verb.options)
    options.push_back(zshOption(option));
  out += name + "() {\n";
  if (verb.verbs.empty())
    return out + fmt::format("  _arguments -s \\\n{}\n}}\n", fmt::join(options, " \\\n"));
  std::string verbs, cases;
  for (const VerbInfo& one : verb.verbs) {
    verbs += fmt::format(" '{}:{}'", one.name(), inQuotes(replaced(one.text, ":", "\\:")));
    cases += fmt::format("      {}) {}_{} ;;\n", one.name(), name, replaced(one.name(), "-", "_"));
  }
  return out +
         fmt::format("  local context state line curcontext=\"$curcontext\"\n"
                     "  local -a verbs=({})\n"
                     "  _arguments -C \\\n{} \\\n    '1:verb:->verb' '*::argument:->argument'\n"
                     "  case $state in\n"
                     "    verb) _describe verb verbs ;;\n"
                     "    argument) case $line[1] in\n{}    esac ;;\n"
                     "  esac\n}}\n",
                     verbs.substr(1), fmt::join(options, " \\\n"), cases);
}

/// When a line of fish's holds: all of the verb's words were given. A verb of the command is none
/// of another's of the same name, `cache doctor`.
std::string fishCondition(const VerbInfo& verb, const VerbInfo& root) {
  std::vector<std::string> seen;
  for (std::size_t i = 1; i < verb.path.size(); ++i)
    seen.push_back("__fish_seen_subcommand_from " + verb.path[i]);
  if (verb.path.size() == 2)
    for (const VerbInfo& other : root.verbs)
      for (const VerbInfo& deeper : other.verbs)
        if (deeper.name() == verb.name())
          seen.push_back("not __fish_seen_subcommand_from " + other.name());
  return fmt::format("{}", fmt::join(seen, "; and "));
}

void addFish(const VerbInfo& verb, const VerbInfo& root, std::string& out) {
  const std::string names = fmt::format("{}", fmt::join(namesOf(verb.verbs), " "));
  std::string here = fishCondition(verb, root);
  if (!verb.verbs.empty())
    here += (here.empty() ? "" : "; and ") + ("not __fish_seen_subcommand_from " + names);
  const std::string line = "complete -c kernel-compile -n '" + here + "'";
  for (const VerbInfo& one : verb.verbs)
    out += fmt::format("{} -f -a {} -d '{}'\n", line, one.name(), inQuotes(one.text));
  for (const OptionInfo& option : verb.options) {
    if (option.positional)
      continue;
    out += line;
    for (const std::string& name : option.names)
      out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    if (!option.words.empty())
      out += fmt::format(" -x -a '{}'", fmt::join(option.words, " "));
    else if (option.takesFolder())
      out += " -x -a '(__fish_complete_directories)'";
    else if (!option.value.empty())
      out += option.takesFile() ? " -r -F" : " -x";
    out += fmt::format(" -d '{}'\n", inQuotes(option.text));
  }
  for (const VerbInfo& one : verb.verbs)
    addFish(one, root, out);
}

} // namespace

std::string bashCompletion(const VerbInfo& root) {
  std::string paths, cases = bashCase(root);
  forEachVerb(root, [&](const VerbInfo& verb) {
    paths += fmt::format("{}\"{}\"", paths.empty() ? "" : "|", wordsAfterCommand(verb));
    cases += bashCase(verb);
  });
  return kBashHead +
         fmt::format("      {}) verb=$word ;;\n    esac\n  done\n  case $verb in\n", paths) +
         cases + kBashTail;
}

std::string zshCompletion(const VerbInfo& root) {
  return "#compdef kernel-compile\n"
         "# Completion of kernel-compile for zsh; printed by 'kernel-compile generate zsh'.\n" +
         zshFunction(root) + "_kernel_compile \"$@\"\n";
}

std::string fishCompletion(const VerbInfo& root) {
  std::string out =
      "# Completion of kernel-compile for fish; printed by 'kernel-compile generate fish'.\n";
  addFish(root, root, out);
  return out;
}

} // namespace kiln::tool
