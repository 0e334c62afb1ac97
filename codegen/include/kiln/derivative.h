// A function's forward and backward as two functions, for programs that launch both themselves and
// hand over what the first saves for the second. Plain C++20: no MLIR, no Torch.
#pragma once

#include "kiln/kiln.h"

namespace kiln {

struct Derivative {
  Module module; // of these functions alone
  /// Takes the function's arguments; returns its results, and then what `backward` reads besides.
  std::string forward;
  /// Takes those of the function's arguments, then those of its results and of what the forward
  /// returns behind them, that it reads, by the names they have; then the gradients of results, "d"
  /// before the names of these. Empty: no gradient need be computed.
  std::string backward;

  /// Where the gradient of an argument is found: there is none; or it is a result of the backward;
  /// or it equals the gradient of a result of the function.
  struct Source {
    enum class From { nowhere, backward, given } from = From::nowhere;
    unsigned index = 0; // of the backward's result, or of the function's
  };
  std::vector<Source> gradients; // of each argument
};

/// Arguments and results marked `kiln.gradient = false` have no gradient. `function` empty: the
/// only one of the module. `readAhead`: see CompileOptions. Throws Error(input): an operation has
/// no gradient, or no result depends on an argument that has one.
KILN_API Derivative differentiate(const Module& module, const std::string& function = {},
                                  bool readAhead = true);

/// One function of both instead, for gradients of results that are known before the results are. It
/// takes the function's arguments, then the gradients of its results, named as above; it returns
/// the function's results, then the gradients of its arguments that have one, "d" before the names
/// of these. Called as the function with "_with_gradient" behind it; the module's only one.
KILN_API Module withGradient(const Module& module, const std::string& function = {});

} // namespace kiln
