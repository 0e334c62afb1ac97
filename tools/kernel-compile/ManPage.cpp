// See ManPage.h. Written in the macros of man(7), which groff and mandoc read.
#include "tools/kernel-compile/ManPage.h"

#include "kiln/kiln.h"
#include "tools/kernel-compile/Exits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sstream>

namespace kiln::tool {

namespace {

/// Text as it is: no line of it is a request, no backslash an escape.
std::string roff(const std::string& text) {
  std::string out;
  for (char c : text) {
    const bool begins = out.empty() || out.back() == '\n';
    if (begins && (c == '.' || c == '\''))
      out += "\\&";
    out += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
  }
  return out;
}

std::string term(const OptionInfo& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names)
    names.push_back("\\fB" + roff(name) + "\\fR");
  std::string out = fmt::format("{}", fmt::join(names, ", "));
  if (option.positional)
    return "\\fI" + roff(option.value) + "\\fR";
  return out + (option.value.empty() ? "" : " \\fI" + roff(option.value) + "\\fR");
}

std::string optionsOf(const VerbInfo& verb) {
  std::string out;
  for (bool positional : {true, false})
    for (const OptionInfo& option : verb.options)
      if (option.positional == positional && (!option.isHelp() || verb.path.size() == 1))
        out += ".TP\n" + term(option) + "\n" + roff(option.fullText()) + "\n";
  return out;
}

/// Lines that begin with blanks are examples.
std::string footerOf(const VerbInfo& verb) {
  std::istringstream lines(verb.footer);
  std::string out = ".PP\n", line;
  bool isExample = false;
  while (std::getline(lines, line)) {
    const bool begins = line.starts_with("  ");
    if (begins != isExample)
      out += begins ? ".PP\n.nf\n" : ".fi\n.PP\n";
    isExample = begins;
    out += roff(line) + "\n";
  }
  return verb.footer.empty() ? "" : out + (isExample ? ".fi\n" : "");
}

} // namespace

std::string manPage(const VerbInfo& root) {
  std::string out = fmt::format(".\\\" Printed by 'kernel-compile generate man'.\n"
                                ".TH KERNEL\\-COMPILE 1 \"\" \"Kiln {}\" \"User Commands\"\n"
                                ".SH NAME\nkernel\\-compile \\- compile tensor programs to GPU "
                                "kernels, and tune them\n"
                                ".SH SYNOPSIS\n",
                                roff(std::string(version())));
  out += "\\fB" + roff(root.name()) + "\\fR \\fIVERB\\fR [\\fIOPTIONS\\fR]\n";
  out += ".SH DESCRIPTION\n" + roff(root.text) + "\n" + footerOf(root);
  out += ".SH OPTIONS\n" + optionsOf(root) + ".SH VERBS\n";
  forEachVerb(root, [&](const VerbInfo& verb) {
    out += ".SS " + roff(verb.synopsis()) + "\n" + roff(verb.text) + "\n" + optionsOf(verb) +
           footerOf(verb);
  });
  out += ".SH EXIT STATUS\n";
  for (const Exit& exit : kExits)
    out += fmt::format(".TP\n{}\n{}\n", exit.code, roff(exit.meaning));
  return out;
}

} // namespace kiln::tool
