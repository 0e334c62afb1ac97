// Why a family cannot execute something as one kernel.
#pragma once

#include "mlir/IR/Operation.h"

#include <optional>
#include <string>

namespace kiln::family {

struct Refusal {
  std::string reason;
  std::optional<mlir::Location> where; // of an operation, which may be gone; none: the whole kernel

  /// False, which is what an analysis that gives up returns.
  bool because(mlir::Operation* at, std::string why) {
    reason = std::move(why);
    where = at->getLoc();
    return false;
  }
};

} // namespace kiln::family
