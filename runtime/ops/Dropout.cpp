// aten::native_dropout and its backward: what at::dropout is on a GPU while training. The mask is
// drawn from the device's generator, as ATen's is, and advances it; from one seed it is another
// mask than ATen's, whose numbers depend on the grid of its kernel. So who draws follows from the
// call alone: of what is taken the mask is Kiln's whether a kernel is there or not.
#include "runtime/Mask.h"
#include "runtime/Router.h"
#include "runtime/Text.h"

#include <ATen/ops/native_dropout_backward_cpu_dispatch.h>
#include <ATen/ops/native_dropout_cpu_dispatch.h>
#if KILN_TORCH_CUDA
#include <ATen/ops/native_dropout_backward_cuda_dispatch.h>
#include <ATen/ops/native_dropout_cuda_dispatch.h>
#endif

#include <ATen/ops/gt.h>

namespace kiln::runtime {

namespace native_dropout {
namespace {

using at::Tensor;
enum Bit : unsigned { x, mask };

/// `result` = `from` * %mask * scale in fp32 and this order, as ATen: what is dropped stays NaN
/// where it was NaN or infinite.
std::string scaledText(const Key& key, const char* result, const char* from, double scale) {
  const bool narrow = key.dtypes[0] != DType::f32;
  const std::string rows = rowsType(key), wide = rowsType(key, DType::f32);
  std::string text =
      fmt::format("  %kept = arith.uitofp %mask : {} to {}\n", rowsType(key, DType::i1), wide);
  if (narrow)
    text += fmt::format("  %wide = arith.extf {} : {} to {}\n", from, rows, wide);
  text += fmt::format("  %masked = arith.mulf {0}, %kept : {1}\n"
                      "  %scale = arith.constant dense<{2:.9e}> : tensor<f32>\n"
                      "  %scales = kiln.broadcast %scale dims [] like %masked"
                      " : tensor<f32>, {1} -> {1}\n"
                      "  {3} = arith.mulf %masked, %scales : {1}\n",
                      narrow ? "%wide" : from, wide, static_cast<float>(scale),
                      narrow ? "%scaled" : result);
  if (narrow)
    text += fmt::format("  {} = arith.truncf %scaled : {} to {}\n", result, wide, rows);
  return text;
}

struct DropoutBackward {
  using Signature = Tensor(const Tensor&, const Tensor&, double);
  static constexpr Natives<Signature> natives = KILN_NATIVES(native_dropout_backward);
  static constexpr bool onlyChosen = true;
  static constexpr const char* operands[] = {"dy", "mask"};
  static constexpr const char* results[] = {"dx"};

  static std::string module(const Key& key) {
    const std::string rows = rowsType(key);
    return fmt::format("func.func @dropout_backward(%dy: {0}, %mask: {1}) -> {0} {{\n", rows,
                       rowsType(key, DType::i1)) +
           scaledText(key, "%dx", "%dy", key.number) + fmt::format("  return %dx : {}\n}}\n", rows);
  }

  static Reason describe(Call& call, const Tensor& grad, const Tensor& kept, double scale) {
    call.key.number = scale;
    if (Reason why = call.setElements(grad))
      return why;
    if (Reason why = call.add(mask, &kept, grad, call.elements(), at::kBool))
      return why;
    if (grad.sizes() != kept.sizes())
      return kShapes;
    // ATen's result lies as the gradient does only if that is one of its memory formats.
    return grad.strides() == kept.strides() && grad.is_contiguous(grad.suggest_memory_format())
               ? nullptr
               : kStrides;
  }
  static Tensor run(const Launch& launch, const Tensor& grad, const Tensor& kept, double) {
    Tensor dx = launch.emptyLike(grad);
    launch({&grad, &kept}, {&dx});
    return dx;
  }
  static auto example(const Rows& rows) {
    return std::tuple(rows.full(), at::gt(rows.full(), -1), 1 / 0.9);
  }
};

struct Dropout {
  using Signature = std::tuple<Tensor, Tensor>(const Tensor&, double, std::optional<bool>);
  static constexpr Natives<Signature> natives = KILN_NATIVES(native_dropout);
  static constexpr const char* operands[] = {"x", "seed", "offset"};
  static constexpr const char* results[] = {"y", "mask"};

  static std::string module(const Key& key) {
    const std::string rows = rowsType(key), numbers = rowsType(key, DType::i32);
    return fmt::format(
               "func.func @dropout(%x: {0}, %seed: tensor<i64>, %offset: tensor<i64>)\n"
               "    -> ({0}, {1}) {{\n"
               "  %u = kiln.random %seed, %offset like %x : {0} -> {2}\n"
               "  %least = arith.constant dense<{3}> : tensor<i32>\n"
               "  %leasts = kiln.broadcast %least dims [] like %u : tensor<i32>, {2} -> {2}\n"
               "  %mask = arith.cmpi sge, %u, %leasts : {2}\n",
               rows, rowsType(key, DType::i1), numbers, leastKept(key.number)) +
           scaledText(key, "%y", "%x", 1 / (1 - key.number)) +
           fmt::format("  return %y, %mask : {}, {}\n}}\n", rows, rowsType(key, DType::i1));
  }

  static Reason describe(Call& call, const Tensor& self, double p, std::optional<bool> train) {
    if (!train.value_or(true) || !(p > 0 && p < 1))
      return "nothing to drop, or all";
    call.key.number = p;
    if (Reason why = call.setElements(self, /*copied=*/true))
      return why;
    return canDrawMasks(backendOf(placeOf(self)), call.key.device)
               ? nullptr
               : "no kernel that draws masks can be compiled";
  }
  static std::tuple<Tensor, Tensor> run(const Launch& launch, const Tensor& self, auto&&...) {
    const Tensor x = isAligned(self) ? self : shapedLike(flat(self).clone(), self);
    Tensor y = launch.emptyLike(x), kept = launch.emptyLike(x, at::kBool);
    const Draw drawn = launch.draw();
    launch({&x}, {&y, &kept}, {drawn.seed, drawn.offset});
    return {std::move(y), std::move(kept)};
  }
  static std::tuple<Tensor, Tensor> instead(const Call&, const Tensor& self, double p, auto&&...) {
    Tensor kept = drawMask(backendOf(placeOf(self)), self, leastKept(p));
    const Tensor y = scaledByATen(flat(self), flat(kept), p);
    return {shapedLike(y, self), std::move(kept)};
  }
  /// ATen's mask is another one: of ours, what ATen makes of it.
  static std::tuple<Tensor, Tensor> expected(const std::tuple<Tensor, Tensor>& ours,
                                             const Tensor& self, double p, auto&&...) {
    const auto& [y, kept] = ours;
    return {scaledByATen(self, kept, p), kept};
  }
  static auto example(const Rows& rows) {
    return std::tuple(rows.full(), 0.1, std::optional<bool>(true));
  }

 private:
  static Tensor scaledByATen(const Tensor& self, const Tensor& kept, double p) {
    const auto native = self.is_cpu() ? DropoutBackward::natives.cpu : DropoutBackward::natives.gpu;
    return native(self, kept, 1 / (1 - p));
  }
};

} // namespace
} // namespace native_dropout

extern Route dropout, dropoutBackward;
constinit Route dropout = routeOf<native_dropout::Dropout>("native_dropout", "dropout", false);
constinit Route dropoutBackward =
    routeOf<native_dropout::DropoutBackward>("native_dropout_backward", "dropout", false);

} // namespace kiln::runtime
