// kiln::fuse: a C++ function over expressions becomes one differentiable kernel.
//
//   auto gate = kiln::fuse([](kiln::Expr x, kiln::Expr g, kiln::Expr b) {
//     return x * kiln::sigmoid(g + b);
//   });
//   at::Tensor y = gate(x, g, b); // with autograd; safe inside graph capture once it was called
//
// The function is called once, with expressions; it must not depend on anything that changes later.
// Its calls are compiled for the kinds of their operands (dtypes, width of a row, which dimensions
// are broadcast, who wants gradients), for any number of rows; the first of each kind waits for the
// compiler, a second or so (FuseOptions). Kept for the life of the process: make it once.
//
// Shapes. Operands are broadcast against each other as ATen does; one of them must have the shape
// that comes of it ([rows, 1] with [width] alone is refused). Products and attention are none of
// rows: functions of tensors that hold them beside rows are fused by kiln/compile.h. Rows run along
// the last dimension; reductions, norms and softmax work along it, up to 262,144 elements, and
// reductions keep it with size 1. Results have as many dimensions as the operand with most, at
// least one.
//
// Operands lie in memory as they like. Chunks of the columns of another tensor are read where they
// are, if all their rows lie equally far apart, or all blocks of rows along which another operand
// is broadcast, as the heads of tokens are; what has other strides is copied first.
//
// Types. Operands are fp32, bf16 or fp16, mixed at will; masks are bool, class indices int64 or
// int32. Everything is computed in fp32. A result is rounded once, to the dtype that ATen's
// promotion gives for the operands of full shape (bf16 x with fp32 gamma: bf16), or to what to()
// says; a comparison is bool. That holds under autocast too: nothing is cast there, since nothing
// is computed in less.
//
// Gradients of gradients are refused when they are asked for. Operands that are fp64, or lie on the
// CPU (unless FuseOptions::place says so) or another device than a GPU, run op by op on ATen, with
// all that ATen can do, as do empty tensors; kiln::report() counts them.
// Errors are kiln::Error(input), with the shapes and dtypes.
#pragma once

#include "kiln/torch.h"

#include <ATen/core/Tensor.h>
#include <array>
#include <tuple>

namespace kiln {

namespace fusion {
struct Node;
class Function;
} // namespace fusion

/// A tensor of numbers that are not there yet; a number is one too.
class KILN_API Expr {
 public:
  Expr(double number); // NOLINT(google-explicit-constructor): x * 2
  /// Rounded to fp32, bf16 or fp16. Of a result: the dtype that it gets. fp32 stays fp64 where
  /// operands are.
  Expr to(at::ScalarType dtype) const;
  /// Rounded to the dtype that results have. For what is both a result and used further, so that
  /// the backward reads the result instead of what it was computed from. (ATen op by op keeps
  /// fp32.)
  Expr rounded() const;

  explicit Expr(std::shared_ptr<const fusion::Node> node) : node_(std::move(node)) {}
  const std::shared_ptr<const fusion::Node>& node() const { return node_; }

 private:
  std::shared_ptr<const fusion::Node> node_;
};

KILN_API Expr operator+(const Expr& a, const Expr& b);
KILN_API Expr operator-(const Expr& a, const Expr& b);
KILN_API Expr operator*(const Expr& a, const Expr& b);
KILN_API Expr operator/(const Expr& a, const Expr& b);
KILN_API Expr operator-(const Expr& x);
/// Booleans: conditions for where(), or 0 and 1 in sums. No gradient.
KILN_API Expr operator<(const Expr& a, const Expr& b);
KILN_API Expr operator<=(const Expr& a, const Expr& b);
KILN_API Expr operator>(const Expr& a, const Expr& b);
KILN_API Expr operator>=(const Expr& a, const Expr& b);
KILN_API Expr operator==(const Expr& a, const Expr& b);
KILN_API Expr operator!=(const Expr& a, const Expr& b);
/// a where the condition holds, else b: a comparison, or an operand of bool.
KILN_API Expr where(const Expr& condition, const Expr& a, const Expr& b);

KILN_API Expr exp(const Expr& x);
KILN_API Expr log(const Expr& x);
KILN_API Expr tanh(const Expr& x);
KILN_API Expr erf(const Expr& x);
KILN_API Expr sqrt(const Expr& x);
KILN_API Expr rsqrt(const Expr& x);
KILN_API Expr abs(const Expr& x);
KILN_API Expr square(const Expr& x);
KILN_API Expr sigmoid(const Expr& x);
KILN_API Expr silu(const Expr& x);
KILN_API Expr relu(const Expr& x);
enum class Gelu { exact, tanh }; // which formula
KILN_API Expr gelu(const Expr& x, Gelu formula = Gelu::exact);
/// NaN if either is; equal operands share the gradient, as in ATen.
KILN_API Expr max(const Expr& a, const Expr& b);
KILN_API Expr min(const Expr& a, const Expr& b);

/// Along the last dimension, which becomes 1. Equal extrema share the gradient, as in ATen's amax.
KILN_API Expr sum(const Expr& x);
KILN_API Expr mean(const Expr& x);
KILN_API Expr max(const Expr& x);
KILN_API Expr min(const Expr& x);
/// Down all rows, which become one: [1, ..., width], as the gradient of what all rows share. x has
/// all rows. A result is fp32, whatever the operands, unless to() says otherwise.
KILN_API Expr columnSums(const Expr& x);
KILN_API Expr softmax(const Expr& x);
KILN_API Expr logSoftmax(const Expr& x);
/// (x - mean) / sqrt(variance + eps) gamma + beta, along the last dimension.
KILN_API Expr layerNorm(const Expr& x, double eps = 1e-5);
KILN_API Expr layerNorm(const Expr& x, const Expr& gamma, double eps = 1e-5);
KILN_API Expr layerNorm(const Expr& x, const Expr& gamma, const Expr& beta, double eps = 1e-5);
/// x / sqrt(mean(x^2) + eps) gamma.
KILN_API Expr rmsNorm(const Expr& x, double eps = 1e-6);
KILN_API Expr rmsNorm(const Expr& x, const Expr& gamma, double eps = 1e-6);

/// Which columns form pairs: 2i and 2i + 1, or i and i + width / 2.
enum class Pairs { interleaved, halves };
/// Rotary positions: turns pair i by the angle position base^(-2i / width). The width is even.
/// `positions` is an operand of int64 or int32, [..., 1], broadcast along x. Rounded as by
/// rounded(): angles need be no more exact than that. Su et al. (2021).
KILN_API Expr rope(const Expr& x, const Expr& positions, Pairs pairs = Pairs::interleaved,
                   double base = 10000);

/// Elements are zero with probability p (from 1/128 to 127/128 as a multiple of 2^-16, which is
/// off by less than a thousandth), the others are scaled by 1 / (1 - p). Which, depends on a seed
/// drawn at each call from the device's generator (torch::manual_seed); the backward draws the same
/// numbers again, nothing is stored. Always on: leave it out of what is used to evaluate.
KILN_API Expr dropout(const Expr& x, double p);

struct CrossEntropyForm {
  std::int64_t ignoreIndex = -100; // rows of this class have loss and gradient 0
  double labelSmoothing = 0;       // from 0 to 1
  double zLoss = 0;                // weight of log(sum(exp(logits)))^2
};
/// The loss of each row of logits, [..., 1], for class indices [..., 1]. An index that is neither a
/// class nor ignored gives NaN. Sources: see the dialect's kiln.cross_entropy.
KILN_API Expr crossEntropy(const Expr& logits, const Expr& classes,
                           const CrossEntropyForm& form = {});

struct FuseOptions {
  std::string name = "fused"; // in reports and kernels: letters, digits, '_'
  /// Whether a call waits for its kernel, or runs op by op on ATen until it is there. One with a
  /// dropout waits in any case: what it draws may not depend on when the compiler is done.
  bool wait = true;
  /// Place::cpu: tensors of the CPU too run as kernels, on the host target, slowly (KILN_PLACE).
  Place place = Options::fromEnvironment().place;
};

/// A function of tensors whose number of operands and results is not part of its type.
class KILN_API FusedFunction {
 public:
  using Trace = std::vector<Expr> (*)(const void* function, const std::vector<Expr>& operands);
  FusedFunction(unsigned operands, Trace trace, const void* function, const FuseOptions& options);
  std::vector<at::Tensor> call(std::span<const at::Tensor* const> operands) const;
  /// Writes the results to tensors that are there, of their sizes, which may be operands or lie
  /// where these do. Nothing is recorded for autograd.
  void callInto(std::span<const at::Tensor* const> operands,
                std::span<const at::Tensor> results) const;

 private:
  fusion::Function* function_; // lives as long as the process
};

namespace fusion {

template <typename R, typename... Args> struct ShapeOf {
  static constexpr std::size_t operands = sizeof...(Args);
  static constexpr bool ofTensors = (std::is_same_v<std::remove_cvref_t<Args>, at::Tensor> && ...);
  using Result = R;
};
template <typename F> struct Shape : Shape<decltype(&F::operator())> {};
template <typename C, typename R, typename... Args>
struct Shape<R (C::*)(Args...) const> : ShapeOf<R, Args...> {};
template <typename R, typename... Args> struct Shape<R (*)(Args...)> : ShapeOf<R, Args...> {};

/// Of tensors instead: kiln/compile.h has fuse() for these.
template <typename F>
concept OfTensors = Shape<F>::ofTensors;
template <typename F>
concept OfExpressions = !OfTensors<F>;

inline std::vector<Expr> listOf(const Expr& one) {
  return {one};
}
inline std::vector<Expr> listOf(const auto& several) { // std::array, std::pair or std::tuple
  return std::apply([](const auto&... each) { return std::vector<Expr>{each...}; }, several);
}

} // namespace fusion

/// What fuse() gives: called with tensors, it returns a tensor, or a std::array of as many as the
/// function returns expressions.
template <typename F> class Fused {
  using Shape = fusion::Shape<F>;
  using Result = std::remove_cvref_t<typename Shape::Result>;

 public:
  Fused(const F& f, const FuseOptions& options) : function_(Shape::operands, &trace, &f, options) {}

  /// The same without a type for each function.
  const FusedFunction& untyped() const { return function_; }

  template <typename... Tensors>
    requires(sizeof...(Tensors) == Shape::operands)
  auto operator()(const Tensors&... tensors) const {
    const at::Tensor* const operands[] = {&tensors...};
    std::vector<at::Tensor> results = function_.call(operands);
    if constexpr (std::is_same_v<Result, Expr>) {
      return std::move(results[0]);
    } else {
      std::array<at::Tensor, std::tuple_size_v<Result>> all;
      std::move(results.begin(), results.end(), all.begin());
      return all;
    }
  }

 private:
  static std::vector<Expr> trace(const void* function, const std::vector<Expr>& operands) {
    return [&]<std::size_t... i>(std::index_sequence<i...>) {
      return fusion::listOf((*static_cast<const F*>(function))(operands[i]...));
    }(std::make_index_sequence<Shape::operands>());
  }

  FusedFunction function_;
};

/// `f`: takes expressions, returns one, or a std::array or std::tuple of several. It may not be a
/// generic lambda: its parameters tell the number of operands, at most 32. An `f` that takes
/// tensors, for products and attention among rows, is kiln/compile.h's.
template <fusion::OfExpressions F> Fused<F> fuse(const F& f, const FuseOptions& options = {}) {
  return Fused<F>(f, options);
}

} // namespace kiln
