// See Runner.h.
#include "test/numerics/Runner.h"

#include "codegen/family/Family.h"
#include "codegen/passes/FunctionPlan.h"
#include "dialect/Kiln.h"
#include "test/numerics/Chain.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace kiln::test {
namespace {

using ir::Tensor64;

/// Moves values by one rounding to fp32, or to their own type if that is narrower.
struct Mover {
  std::mt19937_64& random;
  bool chained = false; // what the forward returns is read by the backward
  void operator()(DType dtype, Tensor64& tensor) const {
    if (precisionOf(dtype).relative > 0)
      move(tensor, std::max(precisionOf(dtype).relative, 0x1p-24));
  }
  /// Values on the way that are stored, between kernels, in a narrow type, or that a family rounds
  /// within the operation.
  void operator()(mlir::Value value, Tensor64& tensor) const {
    DType dtype = family::dtypeOf(ir::tensorType(value).getElementType());
    bool returned = llvm::any_of(value.getUsers(), [](mlir::Operation* user) {
      return llvm::isa<mlir::func::ReturnOp>(user);
    });
    if (dtype != DType::f32 && (chained || !returned))
      (*this)(dtype, tensor);
    mlir::Operation* op = value.getDefiningOp();
    if (const double unit =
            family::executing(op->getParentOfType<mlir::func::FuncOp>(), op).rounding(value))
      move(tensor, unit / 2); // what is added up is rounded by as much, and this counts 16 times
  }

 private:
  void move(Tensor64& tensor, double unit) const {
    for (double& value : tensor.data)
      value *= random() % 2 ? 1 + unit : 1 - unit;
  }
};

/// What the function, its derived backward or both as one give in fp64; moved by rounding if there
/// is a mover.
std::vector<Tensor64> reference(const Case& numericCase, const std::vector<Tensor64>& inputs,
                                const Mover* mover = nullptr) {
  Parsed parsed(numericCase.text);
  mlir::func::FuncOp function = parsed.whatIsComputed(numericCase);
  auto results =
      ir::evaluate(function.getBody().front(), inputs, [&](mlir::Value value, Tensor64& tensor) {
        if (mover)
          (*mover)(value, tensor);
      });
  if (failed(results))
    throw Error(ErrorKind::input, "no reference of " + parsed.name);
  return std::move(*results);
}

/// What may be wrong of one result: rounding to its type; fp32 rounding of the computation, which
/// grows with the root of the number of terms; and what the same rounding of the inputs changes,
/// since terms may cancel. `moved` holds results from inputs moved by that rounding, none in strict
/// cases.
class Allowance {
 public:
  Allowance(DType dtype, const Tensor64& exact, const std::vector<std::vector<Tensor64>>& moved,
            std::size_t output, std::int64_t terms, Strict strict)
      : precision(precisionOf(dtype)), least(strict == Strict::no ? 0x1p-126 : precision.smallest),
        growth(0x1p-24 * (8.0 + std::sqrt(static_cast<double>(terms)))), exact(exact) {
    bool rows = exact.shape.size() > 1;
    width = rows ? exact.width() : exact.size();
    for (std::int64_t start = 0; width > 0 && start < exact.size(); start += width) {
      double most = 0;
      for (auto& results : moved)
        most = std::max(most, rms(start, [&](std::int64_t i) {
                          return results[output].data[i] - exact.data[i];
                        }));
      double typical = 0;
      if (strict != Strict::elements)
        typical = rms(start, [&](std::int64_t i) { return exact.data[i]; });
      ofRow.push_back(16 * most + growth * typical);
    }
  }
  double at(std::int64_t i) const {
    double size = std::abs(exact.data[i]);
    return precision.relative * size * 1.0001 + growth * size + ofRow[i / width] +
           precision.smallest + least;
  }

  Precision precision;

 private:
  double least;
  template <class Value> double rms(std::int64_t start, Value value) const {
    double square = 0;
    std::int64_t count = 0;
    for (std::int64_t i = start; i < start + width; ++i)
      if (double v = value(i); std::isfinite(v))
        square += v * v, ++count;
    return count ? std::sqrt(square / static_cast<double>(count)) : 0.0;
  }

  double growth;
  const Tensor64& exact;
  std::int64_t width;
  std::vector<double> ofRow;
};

bool agrees(double result, double exact, double allowed, const Precision& precision) {
  if (std::isnan(exact) || std::isnan(result))
    return std::isnan(exact) && std::isnan(result);
  if (std::isinf(exact) || std::isinf(result)) // beyond the largest of the type is infinite too
    return result == exact || (std::isinf(result) && std::signbit(result) == std::signbit(exact) &&
                               std::abs(exact) + allowed > precision.largest);
  return std::abs(result - exact) <= allowed;
}

std::string compare(const TensorInfo& info, const Tensor64& result, const Tensor64& exact,
                    const Allowance& allowance, double disturb) {
  std::int64_t wrong = 0;
  double worst = -1;
  std::string text;
  for (std::int64_t i = 0; i < exact.size(); ++i) {
    double allowed = allowance.at(i), value = result.data[i];
    if (disturb != 0)
      value += disturb * allowed;
    if (agrees(value, exact.data[i], allowed, allowance.precision))
      continue;
    ++wrong;
    double share = std::abs(value - exact.data[i]) / allowed;
    if (worst >= 0 && !(share > worst))
      continue;
    worst = std::isnan(share) ? std::numeric_limits<double>::infinity() : share;
    text = fmt::format("element {}: {:.9g} instead of {:.9g}, {:.3g} allowed", i, value,
                       exact.data[i], allowed);
  }
  return wrong ? fmt::format("{}: {} of {} elements; worst {}\n", info.name, wrong, exact.size(),
                             text)
               : "";
}

} // namespace

std::string problemsOf(const Case& numericCase, Where where, double disturb) {
  const Chain chain(numericCase, where);
  std::mt19937_64 random(std::hash<std::string>()(numericCase.name));
  std::vector<Storage> inputs = chain.storages(chain.inputs);
  std::vector<Tensor64> values;
  std::int64_t terms = 1;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].write(randomValues(chain.inputs[i], inputs[i].sizes(), numericCase, i == 0, random));
    values.push_back(inputs[i].read()); // as stored: repeated elements are one
    terms = std::max(terms, values[i].width() + values[i].rows());
  }
  std::vector<Storage> outputs = chain.run(inputs), again = chain.run(inputs);
  std::vector<Tensor64> exact = reference(numericCase, values);
  std::vector<std::vector<Tensor64>> moved;
  Mover mover{random, numericCase.chained};
  for (int draw = 0; draw < (numericCase.strict == Strict::no ? 3 : 0); ++draw) {
    std::vector<Tensor64> nearby = values;
    for (std::size_t i = 0; i < nearby.size(); ++i)
      if (chain.inputs[i].dtype == DType::f32 ||
          (numericCase.cancels && precisionOf(chain.inputs[i].dtype).relative > 0))
        mover(DType::f32, nearby[i]);
    moved.push_back(reference(numericCase, nearby, &mover));
  }
  std::string problems;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const TensorInfo& info = chain.results[i];
    Allowance allowance(info.dtype, exact[i], moved, i, terms, numericCase.strict);
    problems += compare(info, outputs[i].read(), exact[i], allowance, disturb);
    if (!outputs[i].hasBitsOf(again[i]))
      problems += info.name + ": a second run gave other bits\n";
    if (!outputs[i].isPoisonAround())
      problems += info.name + ": written outside\n";
  }
  return problems;
}

void assemble(const Case& numericCase) {
  if (numericCase.scheduleOfBackward.empty())
    compiled(numericCase, Stage::cubin);
  else
    static_cast<void>(Chain(numericCase, Where::gpu)); // each with schedules of its own
}

} // namespace kiln::test
