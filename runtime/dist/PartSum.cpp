// See PartSum.h.
#include "runtime/dist/PartSum.h"
#include "kiln/bucket_ops.h"

#include <utility>

namespace kiln::dist {

bool PartSum::wait(std::chrono::milliseconds limit) {
  move->wait(limit);
  if (!parts.empty())
    optim::OrderedSum().run(std::exchange(parts, {}), out);
  return true;
}

} // namespace kiln::dist
