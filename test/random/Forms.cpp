// The forms of steps. All math is fp32; arguments are widened where they are read.
#include "test/random/Function.h"

#include <algorithm>
#include <cmath>

namespace kiln::test {
namespace {

using Sizes = std::span<const double>;
using Of = Form::Of;
constexpr Kind R = Kind::rows, S = Kind::statistic, C = Kind::columns, O = Kind::scalar,
               M = Kind::mask;

double first(Sizes of, double) {
  return of[0];
}
double sum(Sizes of, double) {
  return of[0] + of[1];
}
double product(Sizes of, double) {
  return of[0] * of[1];
}
double largest(Sizes of, double) {
  return *std::ranges::max_element(of);
}
double second(Sizes of, double) {
  return of[1];
}
double one(Sizes, double) {
  return 1;
}
double few(Sizes, double) {
  return 6;
}
double ofRow(Sizes of, double width) {
  return of[0] * std::sqrt(width) + of[0];
}
double logarithm(Sizes of, double width) {
  return of[0] + std::log(width + 1);
}

/// `$k` is a constant 1 of the form's shape.
#define ONE(type)                                                                                  \
  "  $r_one = arith.constant dense<1.0> : tensor<f32>\n"                                           \
  "  $r_k = kiln.broadcast $r_one dims [] like $0 : tensor<f32>, " type " -> " type "\n"

const Form table[] = {
    {"add", R, {R, R}, "  $r = arith.addf $0, $1 : $R\n", sum},
    {"sub", R, {R, R}, "  $r = arith.subf $0, $1 : $R\n", sum},
    {"mul", R, {R, R}, "  $r = arith.mulf $0, $1 : $R\n", product},
    {"quotient",
     R,
     {R, R},
     ONE("$R") "  $r_q = arith.mulf $1, $1 : $R\n  $r_d = arith.addf $r_q, $r_k : $R\n"
               "  $r = arith.divf $0, $r_d : $R\n",
     first},
    {"tanh", R, {R}, "  $r = math.tanh $0 : $R\n", one},
    {"sin", R, {R}, "  $r = math.sin $0 : $R\n", one},
    {"erf", R, {R}, "  $r = math.erf $0 : $R\n", one},
    {"neg", R, {R}, "  $r = arith.negf $0 : $R\n", first},
    {"exp_tanh", R, {R}, "  $r_t = math.tanh $0 : $R\n  $r = math.exp $r_t : $R\n", few},
    {"log_square",
     R,
     {R},
     ONE("$R") "  $r_q = arith.mulf $0, $0 : $R\n  $r_d = arith.addf $r_q, $r_k : $R\n"
               "  $r = math.log $r_d : $R\n",
     logarithm},
    {"sigmoid", R, {R}, "  $r = kiln.sigmoid $0 : $R -> $R\n", one},
    {"silu", R, {R}, "  $r = kiln.silu $0 : $R -> $R\n", first},
    {"gelu", R, {R}, "  $r = kiln.gelu $0 : $R -> $R\n", first},
    {"swiglu", R, {R, R}, "  $r = kiln.swiglu $0, $1 : $R, $R -> $R\n", product},
    {"to_bf16",
     R,
     {R},
     "  $r_h = arith.truncf $0 : $R to $B\n  $r = arith.extf $r_h : $B to $R\n",
     first,
     false,
     Of::arguments}, // else all of a row may be rounded the same way, which no noise tells

    {"abs", R, {R}, "  $r = math.absf $0 : $R\n", first, false, Of::argumentsIfBackward},
    {"maximum",
     R,
     {R, R},
     "  $r = arith.maximumf $0, $1 : $R\n",
     largest,
     false,
     Of::argumentsIfBackward},
    {"positive",
     M,
     {R},
     "  $r_z = arith.constant dense<0.0> : tensor<f32>\n"
     "  $r_b = kiln.broadcast $r_z dims [] like $0 : tensor<f32>, $R -> $R\n"
     "  $r = arith.cmpf ogt, $0, $r_b : $R\n",
     one,
     false,
     Of::arguments},
    {"select", R, {M, R, R}, "  $r = arith.select $0, $1, $2 : $M, $R\n", largest},
    {"position",
     R,
     {R},
     "  $r_i = kiln.index dim $last like $0 : $R -> $I\n"
     "  $r_f = arith.sitofp $r_i : $I to $R\n  $r_s = math.sin $r_f : $R\n"
     "  $r = arith.mulf $r_s, $0 : $R\n",
     first},
    {"dropout", R, {R}, "  $r = kiln.dropout $0, %seed, %offset p 0.25 : $R -> $R\n", first},

    {"add_statistics", S, {S, S}, "  $r = arith.addf $0, $1 : $S\n", sum},
    {"mul_statistics", S, {S, S}, "  $r = arith.mulf $0, $1 : $S\n", product},
    {"tanh_statistic", S, {S}, "  $r = math.tanh $0 : $S\n", one},
    {"root_statistic",
     S,
     {S},
     ONE("$S") "  $r_q = arith.mulf $0, $0 : $S\n  $r_d = arith.addf $r_q, $r_k : $S\n"
               "  $r = math.rsqrt $r_d : $S\n",
     one},
    {"along_rows",
     R,
     {S, R},
     "  $r = kiln.broadcast $0 dims [$lead] like $1 : $S, $R -> $R\n",
     first},
    {"down_columns",
     R,
     {C, R},
     "  $r_b = kiln.broadcast $0 dims [$last] like $1 : $C, $R -> $R\n"
     "  $r = arith.mulf $r_b, $1 : $R\n",
     product},
    {"everywhere",
     R,
     {O, R},
     "  $r_b = kiln.broadcast $0 dims [] like $1 : $O, $R -> $R\n"
     "  $r = arith.addf $r_b, $1 : $R\n",
     sum},
    {"mul_columns", C, {C, C}, "  $r = arith.mulf $0, $1 : $C\n", product},
    {"tanh_scalar", O, {O}, "  $r = math.tanh $0 : $O\n", one},

    {"sum", S, {R}, "  $r = kiln.reduce sum $0 dims [$last] : $R -> $S\n", ofRow, true},
    {"mean", S, {R}, "  $r = kiln.reduce mean $0 dims [$last] : $R -> $S\n", first, true},
    {"max",
     S,
     {R},
     "  $r = kiln.reduce max $0 dims [$last] : $R -> $S\n",
     first,
     true,
     Of::argumentsIfBackward},
    {"min",
     S,
     {R},
     "  $r = kiln.reduce min $0 dims [$last] : $R -> $S\n",
     first,
     true,
     Of::argumentsIfBackward},
    {"sum_of_columns", C, {R}, "  $r = kiln.reduce sum $0 dims [$lead] : $R -> $C\n", ofRow, true},
    {"total", O, {R}, "  $r = kiln.reduce sum $0 dims [$all] : $R -> $O\n", ofRow, true},
    {"softmax", R, {R}, "  $r = kiln.softmax $0 : $R -> $R\n", one, true, Of::any, true},
    {"masked_softmax", R, {M, R}, "  $r = kiln.softmax $1 mask $0 : $R, $M -> $R\n", one, true},
    {"log_softmax",
     R,
     {R},
     "  $r = kiln.log_softmax $0 : $R -> $R\n",
     logarithm,
     true,
     Of::any,
     true},
    {"layer_norm",
     R,
     {R},
     "  $r, $r_m, $r_s = kiln.layer_norm $0 {eps = 1.0e-2 : f32} : ($R) -> ($R, $S, $S)\n",
     few,
     true,
     Of::any,
     true},
    {"affine_layer_norm",
     R,
     {R, C, C},
     "  $r, $r_m, $r_s = kiln.layer_norm $0, $1, $2 {eps = 1.0e-2 : f32} : ($R, $C, $C) -> ($R, "
     "$S, "
     "$S)\n",
     second,
     true,
     Of::any,
     true},
    {"rms_norm",
     R,
     {R, C},
     "  $r, $r_s = kiln.rms_norm $0, $1 {eps = 1.0e-2 : f32} : ($R, $C) -> ($R, $S)\n",
     second,
     true},
};
#undef ONE

} // namespace

std::span<const Form> forms() {
  return table;
}

} // namespace kiln::test
