// Why a family cannot execute something as one kernel.
#pragma once

#include <string>

namespace mlir {
class Operation;
} // namespace mlir

namespace kiln::family {

struct Refusal {
  std::string reason;
  mlir::Operation* where = nullptr; // null: the whole kernel

  /// False, which is what an analysis that gives up returns.
  bool because(mlir::Operation* at, std::string why) {
    reason = std::move(why);
    where = at;
    return false;
  }
};

} // namespace kiln::family
