// The command's verbs and options as plain data, read from the parser: what help, the manual page,
// shell completions and `generate json` are printed from, so that none of them is kept by hand.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace kiln::tool {

struct OptionInfo {
  std::vector<std::string> names; // "-o", "--output"; that of a positional argument: "FILE"
  std::string value;              // "FILE"; empty: a flag
  std::string text, group;
  std::vector<std::string> words; // all values that there are; none: any
  std::string standard;           // the value it has when it is not given
  std::vector<std::string> needs; // options it goes with
  bool positional = false, required = false, several = false;

  bool takesFile() const { return value == "FILE" || value.starts_with("STORE"); }
  bool takesFolder() const { return value == "FOLDER"; }
  bool isHelp() const { return names.back() == "--help"; }
  /// Its text, and after it the words, the default and what it needs.
  std::string fullText() const;
};

struct VerbInfo {
  std::vector<std::string> path; // "kernel-compile", "cache", "ls"
  std::string text, footer;
  std::vector<OptionInfo> options;
  std::vector<VerbInfo> verbs;

  const std::string& name() const { return path.back(); }
  std::string fullName() const; // "kernel-compile cache ls"
  std::string synopsis() const; // "kernel-compile cache ls [OPTIONS] STORE"
};

/// Hidden verbs and options are left out.
VerbInfo describe(const CLI::App& app);

/// Calls `work` with each verb of the tree but the root, in order; deeper ones after their parent.
template <class Work> void forEachVerb(const VerbInfo& root, const Work& work) {
  for (const VerbInfo& verb : root.verbs) {
    work(verb);
    forEachVerb(verb, work);
  }
}

} // namespace kiln::tool
