// train_lm: trains a language model, lets it write, makes its tokenizer, or times it.
#include "models/common/Program.h"
#include "models/lm/Run.h"

#include <iostream>

namespace {

/// Nothing else takes several processes.
bool isRun(const kiln::lm::Options& options) {
  return options.trainTokenizer.empty() && options.sample == 0;
}

int run(int argc, char** argv) {
  int status = 0;
  const auto options = kiln::lm::parse(argc, argv, status);
  if (!options)
    return status;
  if (options->deterministic)
    kiln::models::startDeterministic();
  if (kiln::models::startsRanks(options->ranks.nproc) && isRun(*options))
    return kiln::dist::launch(argc, argv, {.ranks = int(options->ranks.nproc)});
  kiln::models::startKiln(options->kiln);
  if (!options->trainTokenizer.empty())
    std::cout << makeTokenizer(*options) << '\n';
  else if (options->sample > 0)
    std::cout << write(*options) << '\n';
  else if (options->bench > 0)
    std::cout << bench(*options);
  else
    train(*options);
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  return kiln::models::guarded("train_lm", [&] { return run(argc, argv); });
}
