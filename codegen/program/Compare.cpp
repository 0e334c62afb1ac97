// See Compare.h.
#include "codegen/program/Compare.h"

#include "codegen/backend/Fail.h"
#include "codegen/family/Elementary.h"
#include "codegen/family/Family.h"
#include "codegen/passes/Passes.h"
#include "codegen/program/Allowed.h"
#include "codegen/program/Noise.h"
#include "dialect/Ranges.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <limits>

using namespace mlir;

namespace kiln::program {
namespace {

constexpr std::int64_t kFewNumbers = 8;
constexpr std::size_t kDrawsForFew = 4, kMostDraws = 8;
/// Of a reference, in elements (family::referenceCost): some ten seconds of one core.
constexpr double kMostCost = 1 << 23;

double largest(DType dtype) {
  return dtype == DType::f16 ? 65504.0 : static_cast<double>(std::numeric_limits<float>::max());
}

bool agrees(double result, double exact, double allowed, DType dtype) {
  if (std::isnan(exact) || std::isnan(result))
    return std::isnan(exact) && std::isnan(result);
  if (std::isinf(exact) || std::isinf(result))
    return result == exact || (std::isinf(result) && std::abs(exact) + allowed > largest(dtype) &&
                               std::signbit(result) == std::signbit(exact));
  return std::abs(result - exact) <= allowed;
}

/// A launch plan names lists behind all else: where it has what a function's argument or result
/// number i is.
template <class IsList> std::vector<std::size_t> placesOf(std::size_t count, IsList isList) {
  std::vector<std::size_t> order, places(count);
  for (bool lists : {false, true})
    for (std::size_t i = 0; i < count; ++i)
      if (isList(i) == lists)
        order.push_back(i);
  for (std::size_t place = 0; place < count; ++place)
    places[order[place]] = place;
  return places;
}

/// A row of so many keeps the cost within limits; odd, so that all places of a tile are met.
std::int64_t stepOf(double cost) {
  return cost > kMostCost ? static_cast<std::int64_t>(std::ceil(cost / kMostCost)) | 1 : 1;
}

/// What nobody computed may be anything; gives the elements that somebody did. Fails where there is
/// none of a result.
std::vector<std::int64_t> allowUnknown(const TensorInfo& info, const ir::Tensor64& exact,
                                       ir::Tensor64& allowed, double cost) {
  const std::int64_t ranges = ir::rangesOf(exact.size(), ir::kWorthAThread);
  std::vector<std::vector<std::int64_t>> found(ranges);
  ir::inRanges(exact.size(), ranges, [&](std::int64_t range, std::int64_t i, std::int64_t end) {
    for (; i < end; ++i)
      if (std::isnan(exact.data[i]))
        allowed.data[i] = std::numeric_limits<double>::infinity();
      else
        found[range].push_back(i);
  });
  std::vector<std::int64_t> known;
  for (const std::vector<std::int64_t>& more : found)
    known.insert(known.end(), more.begin(), more.end());
  if (known.empty() && exact.size() > 0)
    fail(ErrorKind::input,
         "'{}' cannot be compared with fp64 at these sizes: {:.1e} multiply-adds are too many, and "
         "each element needs all of them; leave sizes open ('?') and give smaller ones",
         info.name, cost * static_cast<double>(family::multiplyAddsPerElement));
  return known;
}

/// `result`: of an element. `known`: of a sample; none: all are.
template <class Result>
OutputCheck compareOnce(const TensorInfo& info, Result resultOf, const ir::Tensor64& exact,
                        const ir::Tensor64& allowed, const std::vector<std::int64_t>& known) {
  OutputCheck check;
  check.name = info.name;
  check.dtype = info.dtype;
  check.shape.assign(exact.shape.begin(), exact.shape.end());
  check.passed = true;
  double worst = -1.0, square = 0.0;
  std::int64_t finite = 0;
  for (std::int64_t k = 0, n = known.empty() ? exact.size() : std::ssize(known); k < n; ++k) {
    const std::int64_t i = known.empty() ? k : known[k];
    if (std::isinf(allowed.data[i]))
      continue;
    const double result = resultOf(i);
    check.numbers += std::isfinite(exact.data[i]);
    double error = std::abs(result - exact.data[i]);
    bool good = agrees(result, exact.data[i], allowed.data[i], info.dtype);
    if (std::isfinite(error)) {
      check.maxError = std::max(check.maxError, error);
      square += error * error;
      ++finite;
    }
    const bool isFinite = std::isfinite(error);
    if (good && worst >= 0.0 && !(isFinite && error > worst * allowed.data[i]))
      continue; // without a division: most are
    double share =
        good ? (isFinite ? error / allowed.data[i] : 0.0) : std::numeric_limits<double>::infinity();
    if (!(share > worst))
      continue;
    worst = share;
    check.passed &= good;
    check.result = result;
    check.reference = exact.data[i];
    check.allowed = allowed.data[i];
    check.worst.clear();
    for (std::int64_t rest = i, d = exact.shape.size() - 1; d >= 0; rest /= exact.shape[d--])
      check.worst.insert(check.worst.begin(), rest % exact.shape[d]);
  }
  if (finite > 0)
    check.rmsError = std::sqrt(square / static_cast<double>(finite));
  return check;
}

} // namespace

/// The function of a module, to be evaluated.
struct Evaluated {
  Evaluated(const Module& module, const std::string& name) {
    parsed = session.parse(module.text(), module.state().name);
    auto found =
        passes::findFunction(*parsed, module.functions().size() == 1 ? "" : StringRef(name));
    if (failed(found))
      session.fail("finding the function");
    op = *found;
  }
  Block& block() { return op.getBody().front(); }
  std::vector<ir::Tensor64>
  evaluate(ArrayRef<const ir::Tensor64*> inputs,
           llvm::function_ref<void(Value, ir::Tensor64&)> afterEach = {}) {
    auto results = ir::evaluate(block(), inputs, afterEach);
    if (failed(results))
      session.fail("evaluating");
    return std::move(*results);
  }

  /// Whether any operation will compute a row of so many.
  bool sample(std::int64_t step) {
    bool any = false;
    for (Operation& operation : block())
      if (auto named = dyn_cast<ir::KilnOpInterface>(operation); named && step > 1)
        any |= named.sample(step);
    return any;
  }

  Session session;
  OwningOpRef<ModuleOp> parsed;
  func::FuncOp op;
};

struct Draws {
  Draws(const Module& module, const std::string& function) : noisily(module, function) {}

  Evaluated noisily;
  Noise noise{};
  std::vector<ir::Tensor64> values{};
  std::vector<TensorInfo> outputs{};  // in the order of a launch plan
  std::vector<std::size_t> results{}; // the function's, there
  double cost = 0;
  std::vector<std::vector<ir::Tensor64>> drawn{}; // the function's results
  bool roundsWithin = false;

  void once() {
    SmallVector<const ir::Tensor64*> operands;
    std::vector<ir::Tensor64> disturbed(values.size()); // those that are
    for (auto [argument, value, own] :
         llvm::zip(noisily.block().getArguments(), values, disturbed)) {
      operands.push_back(&value);
      if (!ir::tensorType(argument).getElementType().isF32())
        continue;
      own = value;
      noise(argument, own);
      operands.back() = &own;
    }
    for (Operation& operation : noisily.block())
      roundsWithin |= movesItself(noisily.op, operation, noise.state);
    drawn.push_back(noisily.evaluate(operands, noise));
    noise.again();
  }

  /// Few numbers may happen to be moved by next to nothing, all of them; and a row of few, where
  /// what is rounded on the way is far larger than they.
  bool isAnyFew() const {
    return llvm::any_of(drawn.front(), [&](const ir::Tensor64& tensor) {
      return tensor.size() <= kFewNumbers || (roundsWithin && tensor.width() <= kFewNumbers);
    });
  }

  void allow(Expected& expected) const {
    expected.allowed.resize(outputs.size());
    expected.known.resize(outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::size_t place = results[i];
      SmallVector<const ir::Tensor64*> ofOne;
      for (const std::vector<ir::Tensor64>& all : drawn)
        ofOne.push_back(&all[i]);
      expected.allowed[place] = allowedErrors(outputs[place], expected.exact[place], ofOne);
      if (expected.step > 1)
        expected.known[place] =
            allowUnknown(outputs[place], expected.exact[place], expected.allowed[place], cost);
    }
  }
};

bool Expected::leavesOut() const {
  return std::ranges::any_of(exact, [](const ir::Tensor64& result) {
    return result.size() > 0 &&
           std::ranges::none_of(result.data, [](double value) { return std::isfinite(value); });
  });
}

bool Expected::drawAgain() {
  const std::size_t count = draws->drawn.size();
  if (count >= kMostDraws)
    return false;
  for (std::size_t i = 0; i < count; ++i)
    draws->once();
  draws->allow(*this);
  return true;
}

Expected expect(const Module& module, const std::string& function, std::vector<ir::Tensor64> inputs,
                std::span<const TensorInfo> outputs, double cost) {
  Evaluated exactly(module, function);
  auto draws = std::make_shared<Draws>(module, function);
  func::FuncOp op = exactly.op;
  if (op.getNumArguments() != inputs.size() || op.getNumResults() != outputs.size())
    fail(ErrorKind::input,
         "the reference @{} has {} arguments and {} results, the program {} and "
         "{}",
         op.getName().str(), op.getNumArguments(), op.getNumResults(), inputs.size(),
         outputs.size());
  const auto arguments = placesOf(inputs.size(), [&](std::size_t i) {
    return op.getArgAttr(static_cast<unsigned>(i), ir::kListAttr) != nullptr;
  });
  draws->results = placesOf(outputs.size(), [&](std::size_t i) {
    return op.getResultAttr(static_cast<unsigned>(i), ir::kListAttr) != nullptr;
  });
  for (std::size_t place : arguments)
    draws->values.push_back(std::move(inputs[place]));
  draws->outputs.assign(outputs.begin(), outputs.end());
  draws->cost = cost;
  Expected expected{.exact = {}, .allowed = {}};
  expected.step = exactly.sample(stepOf(cost)) ? stepOf(cost) : 1;
  draws->noisily.sample(expected.step);
  auto exact = std::async(std::launch::async, [&] {
    return exactly.evaluate(
        SmallVector<const ir::Tensor64*>(llvm::make_pointer_range(draws->values)));
  });
  noteArithmetic(draws->noisily.op);
  family::decomposeNamedOps(draws->noisily.block());
  draws->once();
  while (draws->drawn.size() < kDrawsForFew && draws->isAnyFew())
    draws->once();
  std::vector<ir::Tensor64> found = exact.get();
  expected.exact.resize(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i)
    expected.exact[draws->results[i]] = std::move(found[i]);
  draws->allow(expected);
  expected.draws = std::move(draws);
  return expected;
}

template <class Result>
static OutputCheck compareWith(const TensorInfo& info, Result resultOf, Expected& expected,
                               std::size_t output) {
  OutputCheck check;
  do
    check = compareOnce(info, resultOf, expected.exact[output], expected.allowed[output],
                        expected.known[output]);
  while (!check.passed && expected.drawAgain());
  return check;
}

OutputCheck compare(const TensorInfo& info, const ir::Tensor64& result, Expected& expected,
                    std::size_t output) {
  return compareWith(info, [&](std::int64_t i) { return result.data[i]; }, expected, output);
}

OutputCheck compare(const TensorInfo& info, const std::function<double(std::int64_t)>& result,
                    Expected& expected, std::size_t output) {
  return compareWith(info, std::cref(result), expected, output);
}

} // namespace kiln::program
