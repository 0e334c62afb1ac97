// aten::_softmax and aten::_log_softmax over the last dimension, with their backwards. Those get y,
// not x, so that their formulas are written out here: Kiln's own gradient may start from x. Where
// it starts from y this is the same function, step by step, so that what was tuned for it is found.
// Also softmax and log_softmax where autocast would make an fp32 copy of a half-precision input.
#include "runtime/Gradient.h"
#include "runtime/Text.h"

#include <ATen/ops/_log_softmax_backward_data_cpu_dispatch.h>
#include <ATen/ops/_log_softmax_cpu_dispatch.h>
#include <ATen/ops/_softmax_backward_data_cpu_dispatch.h>
#include <ATen/ops/_softmax_cpu_dispatch.h>
#if KILN_TORCH_CUDA
#include <ATen/ops/_log_softmax_backward_data_cuda_dispatch.h>
#include <ATen/ops/_log_softmax_cuda_dispatch.h>
#include <ATen/ops/_softmax_backward_data_cuda_dispatch.h>
#include <ATen/ops/_softmax_cuda_dispatch.h>
#endif

#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax_backward_data.h>

namespace kiln::runtime {

namespace softmaxes {
namespace {

using at::Tensor;
enum Bit : unsigned { x, dy };
enum Dtype : unsigned { ofX, ofY }; // in a key

/// Rows of `x` along `dim`, which must be the last dimension that is longer than 1.
Reason setRows(Call& call, const Tensor& input, std::int64_t dim) {
  if (!input.defined())
    return kUndefined;
  const std::int64_t rank = input.dim();
  if (rank == 0)
    return "a tensor without dimensions";
  if (dim < -rank || dim >= rank)
    return kShapes;
  dim += dim < 0 ? rank : 0;
  for (std::int64_t d = dim + 1; d < rank; ++d)
    if (input.size(d) != 1)
      return "a dimension other than the last";
  return call.setRows(input, dim);
}

struct Forward {
  using Signature = Tensor(const Tensor&, std::int64_t, bool);
  static constexpr const char* operands[] = {"x"};
  static constexpr const char* results[] = {"y"};

  static std::string text(const Key& key, const char* op) {
    return fmt::format("func.func @{0}(%x: {1}) -> {2} {{\n"
                       "  %y = kiln.{0} %x : {1} -> {2}\n  return %y : {2}\n}}\n",
                       op, rowsType(key), rowsType(key, key.dtypes[ofY]));
  }
  static Reason describe(Call& call, const Tensor& input, std::int64_t dim, bool halfToFloat) {
    if (Reason why = setRows(call, input, dim))
      return why;
    if (halfToFloat && input.scalar_type() == at::kFloat)
      return kDtypes; // ATen knows what to say
    call.key.dtypes[ofY] = halfToFloat ? DType::f32 : call.key.dtypes[ofX];
    return nullptr;
  }
  static Tensor run(const Launch& launch, const Tensor& input, std::int64_t, bool) {
    const auto in = input.expect_contiguous();
    Tensor y = launch.empty(input.sizes(), scalarTypeOf(launch.call.key.dtypes[ofY]));
    launch({&*in}, {&y});
    return y;
  }
  static auto example(const Rows& rows) { return std::tuple(rows.full(), std::int64_t(1), false); }
};

struct Backward {
  using Signature = Tensor(const Tensor&, const Tensor&, std::int64_t, at::ScalarType);
  static constexpr const char* operands[] = {"y", "dy"};
  static constexpr const char* results[] = {"dx"};

  /// `math` makes {dx} of {y} and {dy}; {t} is the type of fp32 rows, {s} that of their sums.
  static std::string text(const Key& key, const char* name, std::string_view math) {
    const std::string wide = rowsType(key, DType::f32), narrow = rowsType(key);
    const std::string in = rowsType(key, key.dtypes[ofY]);
    const bool widens = key.dtypes[ofY] != DType::f32, narrows = key.dtypes[ofX] != DType::f32;
    std::string text =
        fmt::format("func.func @{0}(%y: {1}, %dy: {1}) -> {2} {{\n", name, in, narrow);
    if (widens)
      text += fmt::format("  %df = arith.extf %dy : {0} to {1}\n"
                          "  %yf = arith.extf %y : {0} to {1}\n",
                          in, wide);
    text +=
        fmt::format(fmt::runtime(math), fmt::arg("t", wide), fmt::arg("s", kStatistic),
                    fmt::arg("y", widens ? "%yf" : "%y"), fmt::arg("dy", widens ? "%df" : "%dy"),
                    fmt::arg("dx", narrows ? "%wide" : "%dx"));
    if (narrows)
      text += fmt::format("  %dx = arith.truncf %wide : {} to {}\n", wide, narrow);
    return text + fmt::format("  return %dx : {}\n}}\n", narrow);
  }
  static Reason describe(Call& call, const Tensor& grad, const Tensor& output, std::int64_t dim,
                         at::ScalarType inputType) {
    if (Reason why = setRows(call, output, dim))
      return why;
    const auto wanted = dtypeOf(inputType);
    if (!wanted)
      return kDtype;
    if (inputType != output.scalar_type() && output.scalar_type() != at::kFloat)
      return kDtypes;
    call.key.dtypes = {*wanted, call.key.dtypes[0]};
    return call.add(dy, &grad, output, call.elements(), output.scalar_type());
  }
  static Tensor run(const Launch& launch, const Tensor& grad, const Tensor& output, std::int64_t,
                    at::ScalarType inputType) {
    const auto g = grad.expect_contiguous(), y = output.expect_contiguous();
    Tensor dx = launch.empty(output.sizes(), inputType);
    launch({&*y, &*g}, {&dx});
    return dx;
  }
  static auto example(const Rows& rows) {
    return std::tuple(rows.full(), rows.full(), std::int64_t(1), rows.dtype());
  }
};

struct Softmax : Forward {
  static constexpr Natives<Signature> natives = KILN_NATIVES(_softmax);
  static std::string module(const Key& key) { return text(key, "softmax"); }
};
struct LogSoftmax : Forward {
  static constexpr Natives<Signature> natives = KILN_NATIVES(_log_softmax);
  static std::string module(const Key& key) { return text(key, "log_softmax"); }
};

/// dx = y (dy - sum(dy y))
struct SoftmaxBackward : Backward {
  static constexpr Natives<Signature> natives = KILN_NATIVES(_softmax_backward_data);
  static std::string module(const Key& key) {
    return text(key, "softmax_backward",
                "  %p = arith.mulf {y}, {dy} : {t}\n"
                "  %sum = kiln.reduce sum %p dims [1] : {t} -> {s}\n"
                "  %sums = kiln.broadcast %sum dims [0] like {y} : {s}, {t} -> {t}\n"
                "  %d = arith.subf {dy}, %sums : {t}\n"
                "  {dx} = arith.mulf {y}, %d : {t}\n");
  }
};
/// dx = dy - exp(y) sum(dy)
struct LogSoftmaxBackward : Backward {
  static constexpr Natives<Signature> natives = KILN_NATIVES(_log_softmax_backward_data);
  static std::string module(const Key& key) {
    return text(key, "log_softmax_backward",
                "  %p = math.exp {y} : {t}\n"
                "  %sum = kiln.reduce sum {dy} dims [1] : {t} -> {s}\n"
                "  %sums = kiln.broadcast %sum dims [0] like %p : {s}, {t} -> {t}\n"
                "  %d = arith.mulf %p, %sums : {t}\n"
                "  {dx} = arith.subf {dy}, %d : {t}\n");
  }
};

/// The gradient by ATen's operations, with one of its own.
template <auto backward>
Tensor slopeInFp32(const Tensor& grad, const Tensor& output, std::int64_t dim,
                   at::ScalarType inputType) {
  return backward(grad, output, dim, at::kFloat).to(inputType);
}
struct WideSoftmaxBackward : SoftmaxBackward {
  static constexpr Layer layer = Layer::gradient;
  static constexpr auto formula = &slopeInFp32<&at::_softmax_backward_data>;
  static constexpr Natives<Signature> natives = {formula, formula};
};
struct WideLogSoftmaxBackward : LogSoftmaxBackward {
  static constexpr Layer layer = Layer::gradient;
  static constexpr auto formula = &slopeInFp32<&at::_log_softmax_backward_data>;
  static constexpr Natives<Signature> natives = {formula, formula};
};

/// Of an fp32 result, which it keeps, to a half-precision input.
template <typename Op> struct WideNode : torch::autograd::Node {
  WideNode(const Tensor& input, std::int64_t dim)
      : Node(torch::autograd::collect_next_edges(input)), dim(dim), type(input.scalar_type()) {}

  std::string name() const override { return "KilnSoftmaxBackward"; }
  void release_variables() override {
    const std::lock_guard<std::mutex> held(mutex_);
    output.reset_data();
  }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    const std::lock_guard<std::mutex> held(mutex_);
    if (!grads[0].defined())
      return {Tensor()};
    const Tensor y = output.unpack(shared_from_this());
    return {gradientBy<Op>(grads[0], y, dim, type)};
  }

  const std::int64_t dim;
  const at::ScalarType type;
  torch::autograd::SavedVariable output;
};

template <typename Narrow, typename Backward> struct Wide {
  using Signature = Tensor(const Tensor&, std::int64_t, std::optional<at::ScalarType>);
  static constexpr Layer layer = Layer::autocast;
  static constexpr Natives<Signature> natives = {};
  static constexpr auto& operands = Narrow::operands;
  static constexpr auto& results = Narrow::results;

  static std::string module(const Key& key) { return Narrow::module(key); }

  static Reason describe(Call& call, const Tensor& input, std::int64_t dim,
                         std::optional<at::ScalarType> wanted) {
    if (Reason why = input.defined() ? whyNotPlain(input) : kUndefined)
      return why;
    if (wanted.value_or(at::kFloat) != at::kFloat)
      return "a dtype that was asked for";
    if (!at::isReducedFloatingType(input.scalar_type()))
      return "no cast to save";
    return Narrow::describe(call, input, dim, /*halfToFloat=*/true);
  }

  static Tensor run(const Launch& launch, const Tensor& input, std::int64_t dim,
                    std::optional<at::ScalarType>) {
    return recorded(input, dim, [&] { return Narrow::run(launch, input, dim, true); });
  }
  /// As autocast, but with the same node: what is saved is what the kernel's is. Of ATen's kernels
  /// only those of fp16 on GPUs cast.
  static Tensor instead(const Call&, const Tensor& input, std::int64_t dim,
                        std::optional<at::ScalarType>) {
    return recorded(input, dim, [&] {
      if (input.is_cpu())
        return Narrow::natives.cpu(input.to(at::kFloat), dim, false);
      return input.scalar_type() == at::kHalf
                 ? Narrow::natives.gpu(input, dim, true)
                 : Narrow::natives.gpu(input.to(at::kFloat), dim, false);
    });
  }

 private:
  static Tensor recorded(const Tensor& input, std::int64_t dim, const auto& compute) {
    Tensor y;
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      y = compute();
    }
    if (at::GradMode::is_enabled() && input.requires_grad()) {
      const auto node = std::make_shared<WideNode<Backward>>(input, dim);
      torch::autograd::set_history(y, node);
      node->output = torch::autograd::SavedVariable(y, /*is_output=*/true);
    }
    return y;
  }
};
using WideSoftmax = Wide<Softmax, WideSoftmaxBackward>;
using WideLogSoftmax = Wide<LogSoftmax, WideLogSoftmaxBackward>;

} // namespace
} // namespace softmaxes

extern Route wideSoftmax, wideSoftmaxBackward, wideLogSoftmax, wideLogSoftmaxBackward;
constinit Route wideSoftmax = routeOf<softmaxes::WideSoftmax>("softmax.int", "softmax", false);
constinit Route wideSoftmaxBackward =
    routeOf<softmaxes::WideSoftmaxBackward>("softmax_backward", "softmax", false);
constinit Route wideLogSoftmax =
    routeOf<softmaxes::WideLogSoftmax>("log_softmax.int", "log_softmax", false);
constinit Route wideLogSoftmaxBackward =
    routeOf<softmaxes::WideLogSoftmaxBackward>("log_softmax_backward", "log_softmax", false);

extern Route softmax, softmaxBackward, logSoftmax, logSoftmaxBackward;
constinit Route softmax = routeOf<softmaxes::Softmax>("_softmax", "softmax", false);
constinit Route softmaxBackward =
    routeOf<softmaxes::SoftmaxBackward>("_softmax_backward_data", "softmax", false);
constinit Route logSoftmax = routeOf<softmaxes::LogSoftmax>("_log_softmax", "log_softmax", false);
constinit Route logSoftmaxBackward =
    routeOf<softmaxes::LogSoftmaxBackward>("_log_softmax_backward_data", "log_softmax", false);

} // namespace kiln::runtime
