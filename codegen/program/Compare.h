// What the exact result is, and how far from it a correct fp32 computation may end.
#pragma once

#include "codegen/program/State.h"
#include "codegen/program/Tensors.h"
#include "kiln/verify.h"

#include <functional>

namespace kiln::program {

struct Draws; // of noise, so far

struct Expected {
  std::vector<ir::Tensor64> exact;   // fp64, without any rounding
  std::vector<ir::Tensor64> allowed; // largest |result - exact| that rounding explains; infinite
                                     // where nobody computed what is exact
  std::int64_t step = 1;             // a row of so many was computed
  std::vector<std::vector<std::int64_t>> known{}; // elements of a sample, in order
  std::shared_ptr<Draws> draws{};

  /// Twice as many draws, up to eight, for `allowed`; false, once there are. By one thread.
  bool drawAgain();

  /// Whether fp64 gives no number for any element of some result, so that it was not compared: of a
  /// logarithm that is added up, say, and operands that are drawn below zero too.
  bool leavesOut() const;
};

/// Evaluates the function of `module` on the values that the inputs hold, in the order of a launch
/// plan: lists, each a tensor of all its elements, come behind all else. The allowed error is
/// found by Monte Carlo arithmetic (Parker 1997): the function is evaluated again with a random
/// relative error of half an ulp of its type on every input and intermediate result; what that
/// changes, taken over a row and times a safety factor, is what rounding may change. Families are
/// asked how they round within an operation (Family::rounding).
/// Most need one draw. `cost`: family::referenceCost(); where that would take minutes, a sample of
/// the rows is compared.
Expected expect(const Module& module, const std::string& function, std::vector<ir::Tensor64> inputs,
                std::span<const TensorInfo> outputs, double cost = 0);

/// Of output number `output`. What seems wrong is compared once more with what more draws allow: an
/// element that hangs on few roundings may have been moved by next to nothing.
OutputCheck compare(const TensorInfo& info, const ir::Tensor64& result, Expected& expected,
                    std::size_t output);
/// The same of a result whose elements are found one by one: of a sample few are.
OutputCheck compare(const TensorInfo& info, const std::function<double(std::int64_t)>& result,
                    Expected& expected, std::size_t output);

} // namespace kiln::program
