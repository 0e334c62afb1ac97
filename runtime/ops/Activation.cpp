// aten::gelu and aten::silu with their backwards: math of single elements, in whatever order they
// lie in memory.
#include "runtime/Router.h"
#include "runtime/Text.h"

#include <ATen/ops/gelu_backward_cpu_dispatch.h>
#include <ATen/ops/gelu_cpu_dispatch.h>
#include <ATen/ops/silu_backward_cpu_dispatch.h>
#include <ATen/ops/silu_cpu_dispatch.h>
#if KILN_TORCH_CUDA
#include <ATen/ops/gelu_backward_cuda_dispatch.h>
#include <ATen/ops/gelu_cuda_dispatch.h>
#include <ATen/ops/silu_backward_cuda_dispatch.h>
#include <ATen/ops/silu_cuda_dispatch.h>
#endif

namespace kiln::runtime {

namespace activation {
namespace {

using at::Tensor;
enum Bit : unsigned { x, dy, tanhForm };

std::string textOf(const Key& key, const char* op) {
  return fmt::format("func.func @{0}(%x: {1}) -> {1} {{\n"
                     "  %y = kiln.{0} %x{2} : {1} -> {1}\n  return %y : {1}\n}}\n",
                     op, rowsType(key), has(key, tanhForm) ? " approximate tanh" : "");
}

struct Forward {
  static constexpr bool onlyChosen = true;
  static constexpr const char* operands[] = {"x"};
  static constexpr const char* results[] = {"y"};

  static Tensor run(const Launch& launch, const Tensor& self, auto&&...) {
    Tensor y = launch.emptyLike(self);
    launch({&self}, {&y});
    return y;
  }
};

struct Backward {
  static constexpr bool onlyChosen = true;
  static constexpr const char* operands[] = {"x", "dy"};
  static constexpr const char* results[] = {"dx"};

  static Reason describe(Call& call, const Tensor& grad, const Tensor& self) {
    if (Reason why = call.setElements(self))
      return why;
    if (Reason why = call.add(dy, &grad, self, call.elements(), self.scalar_type()))
      return why;
    if (grad.sizes() != self.sizes())
      return kShapes;
    return grad.strides() == self.strides() ? nullptr : kStrides;
  }
  static Tensor run(const Launch& launch, const Tensor& grad, const Tensor& self, auto&&...) {
    Tensor dx = launch.emptyLike(self);
    launch({&self, &grad}, {&dx});
    return dx;
  }
};

/// Which of its two formulas; ATen says what is wrong with any other word.
Reason setForm(Call& call, c10::string_view approximate) {
  call.key.variant |= static_cast<unsigned>(approximate == "tanh") << tanhForm;
  return approximate == "tanh" || approximate == "none" ? nullptr : "an unknown approximation";
}

struct Gelu : Forward {
  using Signature = Tensor(const Tensor&, c10::string_view);
  static constexpr Natives<Signature> natives = KILN_NATIVES(gelu);
  static std::string module(const Key& key) { return textOf(key, "gelu"); }
  static Reason describe(Call& call, const Tensor& self, c10::string_view approximate) {
    Reason why = call.setElements(self);
    return why ? why : setForm(call, approximate);
  }
  static auto example(const Rows& rows) { return std::tuple(rows.full(), "none"); }
};
struct GeluBackward : Backward {
  using Signature = Tensor(const Tensor&, const Tensor&, c10::string_view);
  static constexpr Natives<Signature> natives = KILN_NATIVES(gelu_backward);
  static std::string module(const Key& key) { return textOf(key, "gelu"); }
  static Reason describe(Call& call, const Tensor& grad, const Tensor& self,
                         c10::string_view approximate) {
    Reason why = Backward::describe(call, grad, self);
    return why ? why : setForm(call, approximate);
  }
  static auto example(const Rows& rows) { return std::tuple(rows.full(), rows.full(), "none"); }
};

struct Silu : Forward {
  using Signature = Tensor(const Tensor&);
  static constexpr Natives<Signature> natives = KILN_NATIVES(silu);
  static std::string module(const Key& key) { return textOf(key, "silu"); }
  static Reason describe(Call& call, const Tensor& self) { return call.setElements(self); }
  static auto example(const Rows& rows) { return std::tuple(rows.full()); }
};
struct SiluBackward : Backward {
  using Signature = Tensor(const Tensor&, const Tensor&);
  static constexpr Natives<Signature> natives = KILN_NATIVES(silu_backward);
  static std::string module(const Key& key) { return textOf(key, "silu"); }
  static auto example(const Rows& rows) { return std::tuple(rows.full(), rows.full()); }
};

} // namespace
} // namespace activation

extern Route gelu, geluBackward, silu, siluBackward;
constinit Route gelu = routeOf<activation::Gelu>("gelu", "gelu", false);
constinit Route geluBackward = routeOf<activation::GeluBackward>("gelu_backward", "gelu", true);
constinit Route silu = routeOf<activation::Silu>("silu", "silu", false);
constinit Route siluBackward = routeOf<activation::SiluBackward>("silu_backward", "silu", true);

} // namespace kiln::runtime
