// See Recurrence.h. Formulas: Hochreiter, Schmidhuber (1997); Gers et al. (2000).
#include "runtime/nn/Recurrence.h"

#include "runtime/fuse/Variant.h"
#include "runtime/nn/Functions.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

namespace kiln::nn {

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The gates' dtype, and that of c.
struct CellTypes {
  explicit CellTypes(at::ScalarType gates)
      : gates(gates), state(gates == at::kDouble ? at::kDouble : at::kFloat) {}
  static Expr as(at::ScalarType type, const Expr& x) {
    return type == at::kDouble ? x : x.to(type);
  }
  at::ScalarType gates, state;
};

/// From x's and h's shares of i, f, g, o, and c: these after their activations, the next c and h.
const FusedFunction& cellOf(const CellTypes& types) {
  return shared(
      "lstm_cell", {{static_cast<double>(types.gates)}},
      [types](Expr xi, Expr xf, Expr xg, Expr xo, Expr hi, Expr hf, Expr hg, Expr ho, Expr c) {
        const Expr i = sigmoid(xi + hi), f = sigmoid(xf + hf), g = tanh(xg + hg),
                   o = sigmoid(xo + ho), next = f * c + i * g;
        const auto as = [&](const Expr& x) { return CellTypes::as(types.gates, x); };
        return std::array{
            as(i), as(f), as(g), as(o), CellTypes::as(types.state, next), as(o * tanh(next))};
      });
}

/// From i, f, g, o, c before and after, and the gradients of h by the step's result, of h by the
/// next step, and of c: those of the gates before their activations, and of c before.
const FusedFunction& cellBackwardOf(const CellTypes& types) {
  return shared(
      "lstm_cell_backward", {{static_cast<double>(types.gates)}},
      [types](Expr i, Expr f, Expr g, Expr o, Expr before, Expr after, Expr dy, Expr dh, Expr dc) {
        const Expr t = tanh(after), d = dy + dh, all = dc + d * o * (1 - t * t);
        const auto as = [&](const Expr& x) { return CellTypes::as(types.gates, x); };
        return std::array{as(all * g * i * (1 - i)), as(all * before * f * (1 - f)),
                          as(all * i * (1 - g * g)), as(d * t * o * (1 - o)),
                          CellTypes::as(types.state, all * f)};
      });
}

/// [batch, 4 width] as four of [batch, width].
std::array<Tensor, 4> fourOf(const Tensor& gates) {
  const std::int64_t width = gates.size(-1) / 4;
  std::array<Tensor, 4> parts;
  for (std::int64_t k = 0; k < 4; ++k)
    parts[static_cast<std::size_t>(k)] = gates.narrow(-1, k * width, width);
  return parts;
}

/// The order of steps: step `s` computes place `at(s)` from what is at `at(s - 1)`.
struct Steps {
  std::int64_t count;
  bool isReversed;
  std::int64_t at(std::int64_t s) const { return isReversed ? count - 1 - s : s; }
  /// Places that have a successor, and their successors.
  Tensor sources(const Tensor& all) const { return all.narrow(0, isReversed ? 1 : 0, count - 1); }
  Tensor targets(const Tensor& all) const { return all.narrow(0, isReversed ? 0 : 1, count - 1); }
};

struct Recurrence : torch::autograd::Function<Recurrence> {
  static variable_list forward(AutogradContext* context, const Tensor& gates, const Tensor& weight,
                               const Tensor& h, const Tensor& c, bool isReversed) {
    const CellTypes types(gates.scalar_type());
    const FusedFunction& cell = cellOf(types);
    const Steps steps{gates.size(0), isReversed};
    const std::int64_t batch = gates.size(1), width = gates.size(2) / 4;
    const Tensor y = at::empty({steps.count, batch, width}, gates.options());
    const Tensor cs = at::empty(y.sizes(), gates.options().dtype(types.state));
    const Tensor active = at::empty(gates.sizes(), gates.options());
    Tensor nowC = c.to(types.state), nowH = h;
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      Tensor share = at::empty({batch, 4 * width}, gates.options());
      const Tensor transposed = weight.t();
      const auto r = fourOf(share);
      for (std::int64_t s = 0; s < steps.count; ++s) {
        const std::int64_t t = steps.at(s);
        at::mm_out(share, nowH, transposed);
        const auto x = fourOf(gates.select(0, t)), a = fourOf(active.select(0, t));
        const Tensor nextC = cs.select(0, t), nextH = y.select(0, t);
        const Tensor* const operands[] = {&x[0], &x[1], &x[2], &x[3], &r[0],
                                          &r[1], &r[2], &r[3], &nowC};
        const Tensor results[] = {a[0], a[1], a[2], a[3], nextC, nextH};
        cell.callInto(operands, results);
        nowC = nextC;
        nowH = nextH;
      }
    }
    context->saved_data["reversed"] = isReversed;
    context->save_for_backward({weight, h, c, y, cs, active});
    return {y, nowH.clone(), nowC.to(gates.scalar_type(), false, /*copy=*/true)};
  }

  static variable_list backward(AutogradContext* context, const variable_list& given) {
    const variable_list saved = context->get_saved_variables();
    variable_list gradients;
    {
      const at::NoGradGuard unrecorded;
      gradients = compute(saved, given, context->saved_data["reversed"].toBool());
    }
    if (at::GradMode::is_enabled()) {
      variable_list reached = given;
      reached.insert(reached.end(), saved.begin(), saved.end());
      fusion::refuseSecondGradients(reached, gradients);
    }
    gradients.emplace_back(); // of the direction
    return gradients;
  }

 private:
  /// Of gates, weight, h and c.
  static variable_list compute(const variable_list& saved, const variable_list& given,
                               bool isReversed) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const Tensor &weight = saved[0], &h = saved[1], &c = saved[2], &y = saved[3], &cs = saved[4],
                 &active = saved[5];
    const CellTypes types(active.scalar_type());
    const FusedFunction& cell = cellBackwardOf(types);
    const Steps steps{active.size(0), isReversed};
    const Tensor gates = at::empty(active.sizes(), active.options());
    const Tensor dy = given[0].contiguous(), c0 = c.to(types.state);
    Tensor dh = given[1].clone(at::MemoryFormat::Contiguous);
    Tensor dc = given[2].to(types.state, false, /*copy=*/true, at::MemoryFormat::Contiguous);
    Tensor other = at::empty(dc.sizes(), dc.options());
    for (std::int64_t s = steps.count - 1; s >= 0; --s) {
      const std::int64_t t = steps.at(s);
      const Tensor before = s == 0 ? c0 : cs.select(0, steps.at(s - 1)), after = cs.select(0, t),
                   d = dy.select(0, t), all = gates.select(0, t);
      const auto a = fourOf(active.select(0, t)), g = fourOf(all);
      const Tensor* const operands[] = {&a[0], &a[1], &a[2], &a[3], &before, &after, &d, &dh, &dc};
      const Tensor results[] = {g[0], g[1], g[2], g[3], other};
      cell.callInto(operands, results);
      std::swap(dc, other);
      at::mm_out(dh, all, weight);
    }
    const auto flat = [](const Tensor& x) { return x.flatten(0, 1); };
    const Tensor first = at::mm(gates.select(0, steps.at(0)).t(), h);
    const Tensor dweight = at::addmm(first, flat(steps.targets(gates)).t(), flat(steps.sources(y)));
    return {gates, dweight, dh, dc.to(c.scalar_type())};
  }
};

} // namespace

std::array<Tensor, 3> recur(const Tensor& gates, const Tensor& weight, const Tensor& h,
                            const Tensor& c, bool isReversed) {
  auto results = Recurrence::apply(gates, weight, h, c, isReversed);
  return {results[0], results[1], results[2]};
}

} // namespace kiln::nn
