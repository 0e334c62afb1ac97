// train_alphafold: trains AlphaFold 2, or times it.
#include "models/alphafold/train/Run.h"
#include "models/common/Program.h"

namespace {

int run(int argc, char** argv) {
  int status = 0;
  const auto options = kiln::alphafold::parse(argc, argv, status);
  if (!options)
    return status;
  if (options->deterministic)
    kiln::models::startDeterministic();
  if (kiln::models::startsRanks(options->ranks.nproc))
    return kiln::dist::launch(argc, argv, {.ranks = int(options->ranks.nproc)});
  kiln::models::startKiln(options->kiln);
  if (options->bench > 0)
    bench(*options);
  else
    train(*options);
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  return kiln::models::guarded("train_alphafold", [&] { return run(argc, argv); });
}
