// kernel-compile generate, hidden: what shells, `man` and tests know of the command, printed from
// its parser. The build writes these files.
#include "kiln/files.h"
#include "tools/kernel-compile/Completion.h"
#include "tools/kernel-compile/ManPage.h"
#include "tools/kernel-compile/Terminal.h"
#include "tools/kernel-compile/Verbs.h"
#include "tools/kernel-compile/Words.h"

namespace kiln::tool {

namespace {

nlohmann::ordered_json jsonOf(const VerbInfo& verb) {
  nlohmann::ordered_json json = {{"path", verb.path},
                                 {"text", verb.text},
                                 {"options", nlohmann::ordered_json::array()},
                                 {"verbs", nlohmann::ordered_json::array()}};
  for (const OptionInfo& option : verb.options)
    json["options"].push_back({{"names", option.names},
                               {"value", option.value},
                               {"text", option.text},
                               {"words", option.words},
                               {"default", option.standard},
                               {"positional", option.positional},
                               {"required", option.required}});
  for (const VerbInfo& one : verb.verbs)
    json["verbs"].push_back(jsonOf(one));
  return json;
}

std::string generated(const std::string& what, const VerbInfo& root) {
  if (what == "bash")
    return bashCompletion(root);
  if (what == "zsh")
    return zshCompletion(root);
  if (what == "fish")
    return fishCompletion(root);
  return what == "man" ? manPage(root) : jsonOf(root).dump(2) + "\n";
}

} // namespace

void addGenerate(CLI::App& app) {
  auto what = std::make_shared<std::string>(), output = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("generate", "print what describes the command")->group("");
  verb->add_option("WHAT", *what, "completions, the manual page, or the parser's verbs and options")
      ->check(OneOf({"bash", "zsh", "fish", "man", "json"}))
      ->required();
  verb->add_option("-o,--output", *output, "the file to write; else the standard output")
      ->type_name("FILE");
  verb->callback([what, output, &app] {
    const std::string text = generated(*what, describe(app));
    output->empty() ? printBytes(text) : writeFile(*output, text);
  });
}

} // namespace kiln::tool
