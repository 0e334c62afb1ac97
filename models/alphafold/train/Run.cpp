// See Run.h.
#include "models/alphafold/train/Run.h"
#include "models/common/Fail.h"
namespace kiln::alphafold {
void train(const TrainOptions&) {
  models::fail(ErrorKind::unavailable, "see --bench");
}
} // namespace kiln::alphafold
