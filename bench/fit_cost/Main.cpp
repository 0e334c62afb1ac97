// How good the cost model is by the times in stores, and constants that make it better:
//   fit_cost autotune/stores/h200.db                              what it is worth as it stands
//   fit_cost tuned.db --refit=time --write=codegen/model/cost_constants.def
//   fit_cost tuned.db --refit=ranking --only=narrowRow,narrowIdle     others stay as they are
//   fit_cost tuned.db --save=sweep.json                           times of schedules, to be kept
// A store that a tuning has filled knows all the schedules that it timed, and so does a sweep that
// was saved of it, without cubins; a store that was exported knows choices and defaults, which is
// enough for the time and little for the ranking. Every refit is also tried on keys, and on ops,
// that it was not shown, for which the constants are fitted anew without these: of a whole sweep's
// ranking that takes minutes, and stderr tells how far it is. No GPU is needed.
#include "bench/fit_cost/Fit.h"
#include "kiln/files.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <map>

using namespace kiln;
using namespace kiln::bench;
using model::CostConstant;
using model::CostConstants;
using model::kCostConstants;

namespace {

constexpr std::size_t kParts = 5;

std::string textOf(Share share) {
  return fmt::format("{:5.1f} % ({} of {})", 100 * share.value(), share.count, share.known);
}

void print(std::string_view what, const Figures& figures) {
  fmt::print("{}\n", what);
  fmt::print("  ranking: the best eight hold one within 3 % of the best    {}\n"
             "           the default, where timed, within 1.10 of the best {}\n"
             "           what following it loses, the regret of all        {:6.2f}\n",
             textOf(figures.ranking.bestEight), textOf(figures.ranking.standard),
             figures.ranking.regret);
  auto errors = [](std::string_view of, const Errors& e) {
    fmt::print(
        "  time of {:<9} {} within 10 %; over the measured {:.3f}, 5..95 %: {:.3f}..{:.3f}\n", of,
        textOf(e.within()), e.quantile(0.5), e.quantile(0.05), e.quantile(0.95));
  };
  errors("choices:", figures.choices);
  errors("defaults:", figures.defaults);
  errors("all:", figures.timed);
}

void printKeys(std::span<const RankedKey> keys, const CostConstants& k) {
  fmt::print("label,place,chosen,measured_us,predicted_us,schedule\n");
  for (const RankedKey& ranked : keys)
    for (std::size_t i = 0; i < ranked.key->samples.size(); ++i) {
      const Sample& sample = ranked.key->samples[i];
      fmt::print("\"{}\",{},{},{:.2f},{:.2f},\"{}\"\n", ranked.key->label, ranked.places[i],
                 int(sample.isChosen), sample.microseconds, predicted(ranked, i, k),
                 sample.schedules);
    }
}

/// A number for each key, the same for those of which `nameOf` says the same.
std::vector<std::size_t> groupsOf(std::span<const TunedKey> keys, std::string TunedKey::* nameOf) {
  std::map<std::string, std::size_t> numbers;
  std::vector<std::size_t> groups;
  for (const TunedKey& key : keys)
    groups.push_back(numbers.emplace(key.*nameOf, numbers.size()).first->second);
  return groups;
}

void printChanges(const Chosen& chosen, const CostConstants& k) {
  for (const CostConstant& constant : model::kAllCostConstants)
    if (chosen.has(constant))
      fmt::print("  {:<20} {:>9.4g}  was {:>9.4g}\n", constant.name, k.*constant.member,
                 kCostConstants.*constant.member);
}

/// On stderr, with the seconds since it was made.
Progress progressOf(std::string what) {
  using Clock = std::chrono::steady_clock;
  return [what = std::move(what), begin = Clock::now()](const std::string& text) {
    const std::chrono::duration<double> passed = Clock::now() - begin;
    fmt::print(stderr, "fit_cost: {}: {:.0f} s: {}\n", what, passed.count(), text);
  };
}

CostConstants refit(const Chosen& chosen, std::span<const TunedKey> keys) {
  const bool isRanking = chosen.part == CostConstant::Part::ranking;
  const auto fitter = [&](const std::string& what) -> Fitter {
    return [&, progress = progressOf(what)](std::span<const TunedKey> shown) {
      return isRanking ? fitToRegret(chosen, shown, kCostConstants, progress)
                       : fit(chosen, shown, kCostConstants);
    };
  };
  const CostConstants k = fitter("fit")(keys);
  print("refitted", figuresOf(rank(keys, k), k));
  printChanges(chosen, k);
  const auto printHeldOut = [&](const std::string& title, std::vector<std::size_t> groups,
                                std::size_t parts) {
    for (std::size_t& group : groups)
      group %= parts;
    print(title, heldOut(keys, groups, fitter(title)));
  };
  if (isRanking) // each fit takes half a minute
    printHeldOut(fmt::format("held out by op, in {} parts", kParts), groupsOf(keys, &TunedKey::op),
                 kParts);
  else
    printHeldOut("held out by op: each op by constants fitted to the others",
                 groupsOf(keys, &TunedKey::op), keys.size());
  printHeldOut(fmt::format("held out by keys, in {} parts", kParts),
               groupsOf(keys, &TunedKey::twin), kParts);
  return k;
}

/// Throws Error(input) if a name is of no constant of the part.
Chosen chosen(CostConstant::Part part, std::span<const std::string> names) {
  const auto isKnown = [&](const std::string& name) {
    return std::ranges::any_of(model::kAllCostConstants, [&](const CostConstant& constant) {
      return constant.part == part && constant.name == name;
    });
  };
  if (const auto name = std::ranges::find_if_not(names, isKnown); name != names.end())
    throw Error(ErrorKind::input, fmt::format("--only {}: no constant of that part", *name));
  return {part, names};
}

struct Request {
  std::vector<std::filesystem::path> stores;
  std::string part;
  std::vector<std::string> only;
  std::filesystem::path constants, sweep;
  bool keys = false;
};

void run(const Request& request) {
  std::vector<std::string> skipped;
  if (!request.sweep.empty())
    return writeSweep(request.sweep, timedKeys(request.stores, skipped));
  const std::vector<TunedKey> keys = tunedKeys(request.stores, skipped);
  for (const std::string& reason : skipped)
    fmt::print(stderr, "fit_cost: left out {}\n", reason);
  if (keys.empty())
    throw Error(ErrorKind::missing, "no store has a key with a choice and a timed schedule");
  const std::vector<RankedKey> ranked = rank(keys, kCostConstants);
  if (request.keys)
    return printKeys(ranked, kCostConstants);
  print(fmt::format("{} keys, as they are", keys.size()), figuresOf(ranked, kCostConstants));
  if (request.part.empty())
    return;
  const auto part = request.part == "time" ? CostConstant::Part::time : CostConstant::Part::ranking;
  const CostConstants k = refit(chosen(part, request.only), keys);
  if (!request.constants.empty())
    writeFile(request.constants, withValues(readFile(request.constants), k));
}

} // namespace

int main(int count, char** arguments) {
  Request request;
  CLI::App app("How good the cost model is by the times in stores, and constants that fit them.");
  app.add_option("stores", request.stores, "files of 'kernel-compile tune', or sweeps (.json)")
      ->required();
  auto* refitted = app.add_option("--refit", request.part, "fit the constants of this part anew")
                       ->check(CLI::IsMember({"time", "ranking"}));
  app.add_option("--only", request.only, "these constants of it, such as tail,ring")
      ->delimiter(',')
      ->needs(refitted);
  app.add_option("--write", request.constants,
                 "codegen/model/cost_constants.def, to get their values")
      ->needs(refitted);
  app.add_option("--save", request.sweep, "write all times into this file (.json), nothing else");
  app.add_flag("--keys", request.keys, "every timed schedule as a line of CSV, nothing else");
  CLI11_PARSE(app, count, arguments);
  try {
    run(request);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "fit_cost: {}\n", error.what());
    return 1;
  }
}
