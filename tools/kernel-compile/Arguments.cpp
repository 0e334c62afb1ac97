// See Arguments.h.
#include "tools/kernel-compile/Arguments.h"

#include "dialect/DidYouMean.h"
#include "kiln/kiln.h"
#include "tools/kernel-compile/Tree.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

#include <fmt/ranges.h>

namespace kiln::tool {

namespace {

constexpr std::string_view kRestIsNoOption = "--";

/// "-" is the standard input, "-4x8" and "-.5" are values.
bool looksLikeOption(std::string_view text) {
  return text.size() > 1 && text[0] == '-' &&
         (text[1] == '-' || std::isalpha(static_cast<unsigned char>(text[1])) != 0);
}

const CLI::App* verbNamed(const CLI::App& app, const std::string& name) {
  for (const CLI::App* verb : app.get_subcommands({}))
    if (verb->get_name() == name)
      return verb;
  return nullptr;
}

std::vector<std::string> verbNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({}))
    if (!verb->get_group().empty())
      names.push_back(verb->get_name());
  return names;
}

std::vector<std::string> optionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options({}))
    for (const std::string& name : option->get_lnames())
      names.push_back(name);
  return names;
}

std::string fullName(const CLI::App& app) {
  return app.get_parent() ? fullName(*app.get_parent()) + " " + app.get_name() : app.get_name();
}

/// The option that `argument` names, "--dtype=bf16" or "-ofile"; null: none of the verb's.
const CLI::Option* optionOf(const CLI::App& app, std::string_view argument) {
  for (const CLI::Option* option : app.get_options({})) {
    const bool known =
        argument.starts_with("--")
            ? option->check_lname(std::string(argument.substr(2, argument.find('=') - 2)))
            : option->check_sname(std::string(argument.substr(1, 1)));
    if (known)
      return option;
  }
  return nullptr;
}

[[noreturn]] void refuseVerb(const CLI::App& app, const std::string& name) {
  const std::vector<std::string> names = verbNames(app);
  throw CLI::ValidationError(fmt::format("'{}' is no verb of {}; there are {}{}", printable(name),
                                         fullName(app), fmt::join(names, ", "),
                                         didYouMean(name, names)));
}

[[noreturn]] void refuseOption(const CLI::App& app, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  const std::vector<std::string> names = optionNames(app);
  const std::string_view bare =
      std::string_view(name).substr(std::min(name.size(), name.find_first_not_of('-')));
  const std::string_view nearest = nearestWord(bare, names);
  const std::string advice = !verbNames(app).empty() && name == "--json"
                                 ? "; write it behind the verb"
                             : nearest.empty() ? ""
                                               : fmt::format("; did you mean '--{}'?", nearest);
  throw CLI::ValidationError(
      fmt::format("'{}' is no option of {}{}", printable(name), fullName(app), advice));
}

/// The value is in the argument itself, or the next argument and no option.
void checkValue(std::string_view argument, const std::string* next) {
  const bool isLong = argument.starts_with("--");
  const std::size_t equals = isLong ? argument.find('=') : std::string_view::npos;
  const std::string name(isLong ? argument.substr(0, equals) : argument.substr(0, 2));
  const bool isInside = isLong ? equals != std::string_view::npos : argument.size() > 2;
  if (isInside ? equals + 1 == argument.size() : next == nullptr || next->empty())
    throw CLI::ValidationError(name + " needs a value");
  if (!isInside && looksLikeOption(*next))
    throw CLI::ValidationError(fmt::format(
        "{} needs a value, and '{}' that follows it is an option{}", name, printable(*next),
        isLong ? "; a value that begins so is written " + name + "=" + printable(*next) : ""));
}

/// Calls `work` with each argument that is an option or a verb, the verb it belongs to, and what
/// follows it; `work` says whether that is its value. Gives the last verb.
template <class Work>
const CLI::App& walk(const CLI::App& app, const std::vector<std::string>& arguments,
                     const Work& work) {
  const CLI::App* verb = &app;
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != kRestIsNoOption; ++i) {
    const std::string* next = i + 1 < arguments.size() ? &arguments[i + 1] : nullptr;
    const CLI::App* deeper = verbNamed(*verb, arguments[i]);
    if (deeper)
      verb = deeper;
    else if (work(*verb, arguments[i], next))
      ++i;
  }
  return *verb;
}

bool takesNext(const CLI::Option* option, std::string_view argument) {
  const bool isInside =
      argument.starts_with("--") ? argument.find('=') != argument.npos : argument.size() > 2;
  return option && option->get_items_expected_max() > 0 && !isInside;
}

} // namespace

void checkArguments(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App& last =
      walk(app, arguments,
           [](const CLI::App& verb, const std::string& argument, const std::string* next) {
             if (!looksLikeOption(argument)) {
               if (!verb.get_subcommands({}).empty())
                 refuseVerb(verb, argument);
               return false;
             }
             const CLI::Option* option = optionOf(verb, argument);
             if (!option)
               refuseOption(verb, argument);
             if (option->get_items_expected_max() > 0)
               checkValue(argument, next);
             return takesNext(option, argument);
           });
  const bool isAnswered = std::ranges::any_of(arguments, [](const std::string& argument) {
    return argument == "--help" || argument == "-h" || argument == "--version";
  });
  if (!isAnswered && !last.get_subcommands({}).empty())
    throw CLI::ValidationError(
        fmt::format("{} needs a verb: {}", fullName(last), fmt::join(verbNames(last), ", ")));
}

bool wantsJson(const std::vector<std::string>& arguments) {
  return std::find(arguments.begin(), std::ranges::find(arguments, kRestIsNoOption), "--json") !=
         std::ranges::find(arguments, kRestIsNoOption);
}

std::string verbOf(const CLI::App& app, const std::vector<std::string>& arguments) {
  return fullName(walk(
      app, arguments, [](const CLI::App& verb, const std::string& argument, const std::string*) {
        return looksLikeOption(argument) && takesNext(optionOf(verb, argument), argument);
      }));
}

} // namespace kiln::tool
