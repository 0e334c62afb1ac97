// kernel-compile bench: what a store has chosen beside the default and a plain copy, in turn.
#include "tools/kernel-compile/Kernels.h"
#include "tools/kernel-compile/Recheck.h"

namespace kiln::tool {

static int benchStore(const RecheckRequest& request) {
  std::vector<BenchResult> results;
  {
    StatusLine status(!request.json);
    results = bench(request.store, optionsOf(request, status));
  }
  Table table = timesTable({"schedule"});
  for (const BenchResult& result : results) {
    if (!result.trouble.empty())
      continue;
    std::vector<std::string> cells = timesCells(result);
    cells.push_back(shortSchedule(result.schedule));
    table.row(std::move(cells));
  }
  return tell(request, results, timesJson, table.empty() ? "" : table.text(), 0);
}

void addBench(CLI::App& app, Outcome& outcome) {
  auto [verb, request] =
      addRecheck(app, outcome, "bench", "time a store's choices beside the default and a copy",
                 "bench tuned.db 3f2a91 --record", benchStore);
  addRounds(*verb, *request);
}

} // namespace kiln::tool
