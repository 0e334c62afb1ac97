// kernel-compile report: a store as a document.
#include "kiln/cache.h"
#include "kiln/files.h"
#include "tools/kernel-compile/Terminal.h"
#include "tools/kernel-compile/Times.h"
#include "tools/kernel-compile/Verbs.h"
#include "tools/kernel-compile/Words.h"

namespace kiln::tool {

void addReport(CLI::App& app, Outcome& outcome) {
  struct ReportRequest {
    std::string store, format = "markdown", output;
    cache::Filter filter;
    bool json = false;
  };
  auto request = std::make_shared<ReportRequest>();
  CLI::App* verb = app.add_subcommand("report", "a store as Markdown, CSV, JSON or a page");
  verb->add_option("STORE", request->store, "the store's file")->required();
  auto* format = verb->add_option("--format", request->format, "of the document")
                     ->type_name("NAME")
                     ->check(OneOf({"markdown", "csv", "json", "html"}))
                     ->capture_default_str();
  verb->add_option("-o,--output", request->output, "the file to write; else the standard output")
      ->type_name("FILE");
  addFilter(*verb, request->filter);
  verb->add_flag("--json", request->json, "the same as --format=json")->excludes(format);
  verb->footer("Example:\n"
               "  kernel-compile report tuned.db --format=html -o tuned.html");
  verb->callback([request, &outcome] {
    outcome.json = request->json;
    warnOfOthers(request->store);
    const std::string text =
        cache::report(request->store, request->json ? "json" : request->format, request->filter);
    if (request->output.empty())
      print(text);
    else
      writeFile(request->output, text);
  });
}

} // namespace kiln::tool
