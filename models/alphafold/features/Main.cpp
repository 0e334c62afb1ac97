// alphafold_features: files of structures and alignments in, a cache of chains out. Ends with 0 if
// everything was used, 1 if something was left out (it is named), 2 if it was called in a wrong
// way.
#include "models/alphafold/features/Build.h"
#include "models/common/Fail.h"
#include "tools/kernel-compile/Progress.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <iostream>
#include <mutex>
#include <optional>

namespace {

using namespace kiln::alphafold;
using nlohmann::json;

const char* examples = R"(Examples:
  alphafold_features --structures=proteins --alignments=proteins --output=features
      of each proteins/.../ID.cif those chains that proteins/ID_CHAIN/ or proteins/ID/ has alignments
      of (*.a3m, *.sto, *.hhr; gzipped ones too)
  alphafold_features --structures=mmcif --alignments=alignments --templates=mmcif \
                     --latest-template=2018-04-30 --output=features
  alphafold_features --sequences=targets.fasta --alignments=alignments --output=features
      chains without a structure, for prediction
)";

json toJson(const std::vector<LeftOut>& all) {
  json list = json::array();
  for (const LeftOut& one : all)
    list.push_back({{"what", kiln::printable(one.what)}, {"why", kiln::printable(one.why)}});
  return list;
}

json toJson(const std::vector<CacheEntry>& all) {
  json list = json::array();
  for (const CacheEntry& one : all)
    list.push_back({{"name", one.name},
                    {"file", one.path.string()},
                    {"residues", one.length},
                    {"resolved", one.resolved},
                    {"msa_rows", one.msaRows},
                    {"templates", one.templates},
                    {"resolution", one.resolution},
                    {"release_date", one.releaseDate}});
  return list;
}

void printText(const BuildResult& result, bool notes) {
  for (const CacheEntry& one : result.made)
    std::cout << fmt::format("{:<12} {:>5} residues, {:>5} resolved, {:>6} rows, {:>2} templates\n",
                             one.name, one.length, one.resolved, one.msaRows, one.templates);
  for (const LeftOut& one : result.leftOut)
    std::cerr << kiln::printable("left out: " + one.what + ": " + one.why) << '\n';
  for (const LeftOut& one : result.notes)
    if (notes)
      std::cerr << kiln::printable("not used: " + one.what + ": " + one.why) << '\n';
  std::cout << fmt::format("{} made, {} there already, {} left out\n", result.made.size(),
                           result.kept.size(), result.leftOut.size());
}

int run(const BuildOptions& given, bool asJson, bool notes) {
  BuildOptions options = given;
  std::mutex mutex;
  std::optional<kiln::tool::Progress> progress;
  options.progress = [&](std::size_t total, const std::string& file) {
    const std::lock_guard lock(mutex);
    if (!progress)
      progress.emplace(total, true);
    progress->step(file);
  };
  const BuildResult result = buildCache(options);
  progress.reset();
  if (asJson)
    std::cout << json{{"made", toJson(result.made)},
                      {"kept", toJson(result.kept)},
                      {"left_out", toJson(result.leftOut)},
                      {"templates_not_used", toJson(result.notes)}}
                     .dump(2)
              << '\n';
  else
    printText(result, notes);
  return result.leftOut.empty() ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) try {
  BuildOptions options;
  bool asJson = false, notes = false;
  CLI::App app("Makes AlphaFold's features of chains, once, for training and prediction.",
               "alphafold_features");
  app.add_option("--structures", options.structures,
                 "mmCIF files, or folders with them at any depth");
  app.add_option("--sequences", options.sequences, "FASTA file of chains without a structure");
  app.add_option("--alignments", options.alignments, "folder of ID_CHAIN/, ID/ or NAME/")
      ->required();
  app.add_option("--output", options.output, "folder for the cache")->required();
  app.add_option("--templates", options.chain.templates.structures,
                 "folder of ID.cif that hits name; without it there are no templates");
  app.add_option("--latest-template", options.chain.templates.latestRelease,
                 "YYYY-MM-DD; later structures are no templates");
  app.add_option("--most-templates", options.chain.templates.most, "of a chain")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000));
  app.add_option("--most-cells", options.chain.mostCells,
                 "rows times residues of an alignment; what is more is left out from its end on")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t(1), std::int64_t(1) << 40));
  app.add_flag("--single", options.chain.allowSingle,
               "chains without an alignment: features of the sequence alone");
  app.add_option("--workers", options.workers, "threads; 0: as many as cores")
      ->capture_default_str()
      ->check(CLI::Range(0, 4096));
  app.add_flag("--again", options.again, "also what is there already, of the same files");
  app.add_flag("--notes", notes, "tells also why templates are not used");
  app.add_flag("--json", asJson, "what was made and left out, as JSON on the standard output");
  app.footer(examples);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return run(options, asJson, notes);
} catch (const std::exception& error) {
  std::cerr << "alphafold_features: " << error.what() << '\n';
  return 2;
}
