// See Texts.h: norms, losses, activations, reductions, random numbers.
#include "test/numerics/TextParts.h"

namespace kiln::test {

std::string layerNormText(Width n, const std::string& type, const std::string& affine,
                          const std::string& lead, const std::string& layout) {
  bool plain = affine.empty();
  return fill(
      fmt::format("func.func @layer_norm(%x: <X>{0}{1}) -> (<X>, <R> {{kiln.gradient = false}}, "
                  "<R> {{kiln.gradient = false}}) {{\n"
                  "  %y, %mean, %rstd = kiln.layer_norm %x{2} : (<X>{3}) -> (<X>, <R>, <R>)\n"
                  "  return %y, %mean, %rstd : <X>, <R>, <R>\n}}\n",
                  layoutAttr(layout), plain ? "" : ", %gamma: <G>, %beta: <G>",
                  plain ? "" : ", %gamma, %beta", plain ? "" : ", <G>, <G>"),
      {{"X", tensor(lead, n, type)}, {"R", rowValues(lead, "f32")}, {"G", tensor("", n, affine)}});
}
std::string rmsNormText(Width n, const std::string& type, bool gamma) {
  return fill(fmt::format("func.func @rms_norm(%x: <X>{}) -> (<X>, <R> {{kiln.gradient = false}}) "
                          "{{\n  %y, %rstd = kiln.rms_norm %x{} : (<X>{}) -> (<X>, <R>)\n"
                          "  return %y, %rstd : <X>, <R>\n}}\n",
                          gamma ? ", %gamma: <G>" : "", gamma ? ", %gamma" : "",
                          gamma ? ", <G>" : ""),
              {{"X", tensor("?x", n, type)}, {"R", "tensor<?xf32>"}, {"G", tensor("", n, type)}});
}
std::string softmaxText(Width n, const std::string& type, bool bias, bool mask, double scale) {
  return fill(
      fmt::format("func.func @softmax(%x: <X>{}{}) -> <X> {{\n"
                  "  %p = kiln.softmax %x{}{} {{scale = {:e} : f32}} : <X>{}{} -> <X>\n"
                  "  return %p : <X>\n}}\n",
                  bias ? ", %bias: <F>" : "", mask ? ", %mask: <M>" : "", bias ? " bias %bias" : "",
                  mask ? " mask %mask" : "", scale, bias ? ", <F>" : "", mask ? ", <M>" : ""),
      {{"X", tensor("?x", n, type)}, {"F", tensor("?x", n, "f32")}, {"M", tensor("?x", n, "i1")}});
}
std::string reduceText(Width n, const std::string& type, bool sums) {
  std::string text = "func.func @reduce(%x: <X>) -> (<R>, <R>, <R>, <R>" +
                     std::string(sums ? ", <C>, tensor<f32>" : "") + ") {\n";
  std::string names = "%sum, %mean, %max, %min", types = "<R>, <R>, <R>, <R>";
  for (const char* kind : {"sum", "mean", "max", "min"})
    text += fmt::format("  %{0} = kiln.reduce {0} %x dims [1] : <X> -> <R>\n", kind);
  if (sums) {
    text += "  %columns = kiln.reduce sum %x dims [0] : <X> -> <C>\n"
            "  %total = kiln.reduce sum %x dims [0, 1] : <X> -> tensor<f32>\n";
    names += ", %columns, %total";
    types += ", <C>, tensor<f32>";
  }
  return fill(text + "  return " + names + " : " + types + "\n}\n",
              {{"X", tensor("?x", n, type)}, {"R", "tensor<?xf32>"}, {"C", tensor("", n, "f32")}});
}
std::string activationText(const std::string& op, Width n, const std::string& type, bool gated,
                           const std::string& options, const std::string& lead) {
  return fill(fmt::format("func.func @activation(%x: <X>{}) -> <X> {{\n"
                          "  %y = kiln.{} %x{} {} : <X>{} -> <X>\n  return %y : <X>\n}}\n",
                          gated ? ", %z: <X>" : "", op, gated ? ", %z" : "", options,
                          gated ? ", <X>" : ""),
              {{"X", tensor(lead, n, type)}});
}
/// Squares and a first step of 1 or more: what the state of an optimizer holds.
std::string adamwText(Width n, const std::string& type, bool ema) {
  return fill("func.func @adamw(%p: <F>, %g: <G>, %m: <F>, %w: <F>, %e: <F>, %lr: tensor<f32>,\n"
              "    %s: tensor<f32>, %scale: tensor<f32>) -> (<F>, <F>, <F>, <H>" +
                  std::string(ema ? ", <F>" : "") +
                  ") {\n"
                  "  %v = arith.mulf %w, %w : <F>\n"
                  "  %above = math.absf %s : tensor<f32>\n"
                  "  %one = arith.constant dense<1.0> : tensor<f32>\n"
                  "  %step = arith.addf %above, %one : tensor<f32>\n"
                  "  %p1, %m1, %v1, %half" +
                  (ema ? ", %e1" : "") + " = kiln.adamw %p, %g, %m, %v, %lr, %step, %scale" +
                  (ema ? ", %e {beta2 = 0.99, ema_decay = 0.9}" : " {weight_decay = 0.3}") +
                  "\n      : (<F>, <G>, <F>, <F>, tensor<f32>, tensor<f32>, tensor<f32>" +
                  (ema ? ", <F>" : "") + ") -> (<F>, <F>, <F>, <H>" + (ema ? ", <F>" : "") +
                  ")\n  return %p1, %m1, %v1, %half" + (ema ? ", %e1" : "") +
                  " : <F>, <F>, <F>, <H>" + (ema ? ", <F>" : "") + "\n}\n",
              {{"F", tensor("?x", n, "f32")},
               {"G", tensor("?x", n, type)},
               {"H", tensor("?x", n, type == "f16" ? "f16" : "bf16")}});
}
std::string logSoftmaxText(Width n, const std::string& type, const std::string& to) {
  return fill("func.func @log_softmax(%x: <X>) -> <Y> {\n"
              "  %y = kiln.log_softmax %x : <X> -> <Y>\n  return %y : <Y>\n}\n",
              {{"X", tensor("?x", n, type)}, {"Y", tensor("?x", n, to)}});
}
std::string indexText(Width n, const std::string& type, const std::string& index) {
  return fill("func.func @index(%x: <X>) -> (<X>, <I>) {\n" + constant("zero", 0) +
                  widen("x", "xf", type) +
                  "  %column = kiln.index dim 1 like %x : <X> -> <I>\n"
                  "  %row = kiln.index dim 0 like %x : <X> -> <I>\n"
                  "  %open = arith.cmpi sle, %column, %row : <I>\n"
                  "  %w = arith.sitofp %column : <I> to <F>\n"
                  "  %v = arith.mulf %xf, %w : <F>\n"
                  "  %q = arith.select %open, %v, %zero : <M>, <F>\n" +
                  narrow("q", "y", type) +
                  "  %sum = arith.addi %column, %row : <I>\n"
                  "  return %y, %sum : <X>, <I>\n}\n",
              {{"X", tensor("?x", n, type)},
               {"F", tensor("?x", n, "f32")},
               {"I", tensor("?x", n, index)},
               {"M", tensor("?x", n, "i1")}});
}
std::string pickText(Width n, const std::string& type, const std::string& index) {
  return fill("func.func @pick(%x: <X>, %t: <T>) -> (<R>, <S>) {\n" + constant("zero", 0) +
                  "  %p = kiln.pick %x, %t : <X>, <T> -> <R>\n" + widen("x", "xf", type) +
                  "  %q = arith.mulf %xf, %xf : <F>\n"
                  "  %s = kiln.pick %q, %t : <F>, <T> -> <S>\n"
                  "  return %p, %s : <R>, <S>\n}\n",
              {{"X", tensor("?x", n, type)},
               {"F", tensor("?x", n, "f32")},
               {"T", rowValues("?x", index)},
               {"R", rowValues("?x", type)},
               {"S", rowValues("?x", "f32")}});
}
std::string rowIndexText() {
  return fill("func.func @row_index(%x: <R>) -> (<R>, tensor<f32>) {\n"
              "  %row = kiln.index dim 0 like %x : <R> -> <I>\n"
              "  %w = arith.sitofp %row : <I> to <R>\n  %y = arith.mulf %x, %w : <R>\n"
              "  %sum = kiln.reduce sum %y dims [0] : <R> -> tensor<f32>\n"
              "  %count = kiln.reduce sum %w dims [0] : <R> -> tensor<f32>\n"
              "  %mean = arith.divf %sum, %count : tensor<f32>\n"
              "  return %y, %mean : <R>, tensor<f32>\n}\n",
              {{"R", "tensor<?xf32>"}, {"I", "tensor<?xi32>"}});
}
std::string crossEntropyText(Width n, const std::string& type, const std::string& index,
                             const std::string& options, const std::string& lead) {
  return fill(
      "func.func @cross_entropy(%x: <X>, %t: <T>) -> (<R>, <R> {kiln.gradient = false}) {\n"
      "  %loss, %lse = kiln.cross_entropy %x, %t " +
          options +
          " : (<X>, <T>) -> (<R>, <R>)\n"
          "  return %loss, %lse : <R>, <R>\n}\n",
      {{"X", tensor(lead, n, type)}, {"T", rowValues(lead, index)}, {"R", rowValues(lead, "f32")}});
}
std::string lossAndGradientText(Width n, const std::string& type) {
  return fill("func.func @loss_and_gradient(%x: <X>, %t: <T>, %d: <R>) -> (<R>, <X>, tensor<f32>, "
              "tensor<f32>) {\n" +
                  constant("zero", 0) + constant("one", 1) + widen("x", "xf", type) +
                  "  %loss, %lse = kiln.cross_entropy %x, %t : (<X>, <T>) -> (<R>, <R>)\n"
                  "  %l = kiln.broadcast %lse dims [0] like %x : <R>, <X> -> <F>\n"
                  "  %s = arith.subf %xf, %l : <F>\n  %p = math.exp %s : <F>\n"
                  "  %column = kiln.index dim 1 like %x : <X> -> <I>\n"
                  "  %tb = kiln.broadcast %t dims [0] like %x : <T>, <X> -> <I>\n"
                  "  %hit = arith.cmpi eq, %column, %tb : <I>\n"
                  "  %share = arith.select %hit, %one, %zero : <M>, <F>\n"
                  "  %e = arith.subf %p, %share : <F>\n"
                  "  %db = kiln.broadcast %d dims [0] like %x : <R>, <X> -> <F>\n"
                  "  %q = arith.mulf %e, %db : <F>\n" +
                  narrow("q", "dx", type) +
                  "  %ignore = arith.constant dense<-100> : tensor<i64>\n"
                  "  %ignored = kiln.broadcast %ignore dims [] like %t : tensor<i64>, <T> -> <T>\n"
                  "  %counts = arith.cmpi ne, %t, %ignored : <T>\n"
                  "  %weight = arith.uitofp %counts : <B> to <R>\n"
                  "  %sum = kiln.reduce sum %loss dims [0] : <R> -> tensor<f32>\n"
                  "  %count = kiln.reduce sum %weight dims [0] : <R> -> tensor<f32>\n"
                  "  return %loss, %dx, %sum, %count : <R>, <X>, tensor<f32>, tensor<f32>\n}\n",
              {{"X", tensor("?x", n, type)},
               {"F", tensor("?x", n, "f32")},
               {"I", tensor("?x", n, "i64")},
               {"M", tensor("?x", n, "i1")},
               {"T", "tensor<?xi64>"},
               {"B", "tensor<?xi1>"},
               {"R", "tensor<?xf32>"}});
}
std::string gateText(Width n, const std::string& type) {
  return fill(
      "func.func @gate(%x: <X>, %g: <X>, %bias: <C>) -> <X> {\n" + constant("zero", 0) +
          constant("one", 1) + widen("x", "xf", type) + widen("g", "gf", type) +
          "  %b = kiln.broadcast %bias dims [1] like %x : <C>, <X> -> <F>\n"
          "  %t = arith.addf %gf, %b : <F>\n  %n = arith.negf %t : <F>\n"
          "  %e = math.exp %n : <F>\n  %d = arith.addf %e, %one : <F>\n"
          "  %q = arith.divf %xf, %d : <F>\n" +
          narrow("q", "y", type) + "  return %y : <X>\n}\n",
      {{"X", tensor("?x", n, type)}, {"F", tensor("?x", n, "f32")}, {"C", tensor("", n, "f32")}});
}
std::string geluText(Width n, const std::string& type) {
  return fill("func.func @gelu(%x: <X>) -> <X> {\n" + constant("zero", 0) + constant("one", 1) +
                  constant("half", 0.5) + constant("slope", 0.7071067811865476) +
                  widen("x", "xf", type) +
                  "  %a = arith.mulf %xf, %slope : <F>\n  %e = math.erf %a : <F>\n"
                  "  %p = arith.addf %e, %one : <F>\n  %h = arith.mulf %xf, %half : <F>\n"
                  "  %q = arith.mulf %h, %p : <F>\n" +
                  narrow("q", "y", type) + "  return %y : <X>\n}\n",
              {{"X", tensor("?x", n, type)}, {"F", tensor("?x", n, "f32")}});
}
std::string chainText(Width n, const std::string& type) {
  return fill("func.func @chain(%x: <X>, %c: <C>) -> (<X>, <R>) {\n" + constant("zero", 0) +
                  widen("x", "xf", type) +
                  "  %t = math.tanh %xf : <F>\n"
                  "  %m = kiln.reduce max %t dims [1] : <F> -> <R>\n"
                  "  %mb = kiln.broadcast %m dims [0] like %x : <R>, <X> -> <F>\n"
                  "  %cb = kiln.broadcast %c dims [1] like %x : <C>, <X> -> <F>\n"
                  "  %u = arith.mulf %t, %mb : <F>\n  %v = arith.addf %u, %cb : <F>\n"
                  "  %s = kiln.softmax %v : <F> -> <F>\n  %w = arith.mulf %s, %xf : <F>\n"
                  "  %k = kiln.reduce sum %w dims [1] : <F> -> <R>\n"
                  "  %kb = kiln.broadcast %k dims [0] like %x : <R>, <X> -> <F>\n"
                  "  %q = arith.subf %w, %kb : <F>\n" +
                  narrow("q", "y", type) + "  return %y, %k : <X>, <R>\n}\n",
              {{"X", tensor("?x", n, type)},
               {"F", tensor("?x", n, "f32")},
               {"R", "tensor<?xf32>"},
               {"C", tensor("", n, "f32")}});
}
std::string randomText(Width n, const std::string& type) {
  std::string text =
      "func.func @random(%x: <X>, %seed: tensor<i64>, %offset: tensor<i64>) -> (<X>, "
      "<I>) {\n" +
      constant("zero", 0) + widen("x", "xf", type);
  std::string sum = "%xf";
  for (auto [name, shape] : {std::pair{"a", "<F>"}, {"b", "<C>"}, {"c", "<R>"}, {"d", "<O>"}}) {
    text += fmt::format("  %u{0} = kiln.random %seed, %offset like %x : <X> -> {1}\n"
                        "  %v{0} = kiln.broadcast %u{0} dims [0, 1, 2] like %x : {1}, <X> -> <F>\n"
                        "  %s{0} = arith.addf {2}, %v{0} : <F>\n",
                        name, shape, sum);
    sum = fmt::format("%s{}", name);
  }
  return fill(text + "  %w = kiln.random %offset, %seed bits 16 like %x : <X> -> <I>\n" +
                  narrow(sum.substr(1), "y", type) + "  return %y, %w : <X>, <I>\n}\n",
              {{"X", tensor("?x3x", n, type)},
               {"F", tensor("?x3x", n, "f32")},
               {"I", tensor("?x3x", n, "i32")},
               {"C", tensor("1x3x", n, "f32")},
               {"R", "tensor<?x1x1xf32>"},
               {"O", "tensor<1x1x1xf32>"}});
}
std::string randomSumsText(Width n) {
  return fill("func.func @random_sums(%x: <F>, %m: <R>, %seed: tensor<i64>, %offset: tensor<i64>) "
              "-> (<R>, <C>, tensor<f32>, <R>) {\n"
              "  %one = arith.constant dense<1> : tensor<i64>\n"
              "  %next = arith.addi %offset, %one : tensor<i64>\n"
              "  %u = kiln.random %seed, %offset like %x : <F> -> <F>\n"
              "  %r = kiln.reduce sum %u dims [1] : <F> -> <R>\n"
              "  %c = kiln.reduce sum %u dims [0] : <F> -> <C>\n"
              "  %t = kiln.reduce sum %u dims [0, 1] : <F> -> tensor<f32>\n"
              "  %v = kiln.random %seed, %next like %m : <R> -> <R>\n"
              "  %w = arith.mulf %r, %v : <R>\n"
              "  return %r, %c, %t, %w : <R>, <C>, tensor<f32>, <R>\n}\n",
              {{"F", tensor("?x", n, "f32")}, {"R", "tensor<?xf32>"}, {"C", tensor("", n, "f32")}});
}
std::string dropoutText(Width n, const std::string& type, double p, const std::string& shared) {
  return fill(
      fmt::format("func.func @dropout(%x: <X>, %seed: tensor<i64>, %offset: tensor<i64>) -> "
                  "<X> {{\n"
                  "  %y = kiln.dropout %x, %seed, %offset p {:e}{} : <X> -> <X>\n"
                  "  return %y : <X>\n}}\n",
                  p, shared.empty() ? "" : " shared " + shared),
      {{"X", tensor("?x3x", n, type)}});
}
std::string dropoutNormText(Width n, const std::string& type) {
  return fill(
      "func.func @dropout_norm(%x: <X>, %bias: <C>, %residual: <X>, %gamma: <C>, %beta: <C>,"
      " %seed: tensor<i64>, %offset: tensor<i64>) -> (<X>, <X>, <R> {kiln.gradient = false}, "
      "<R> {kiln.gradient = false}) {\n" +
          constant("zero", 0) + widen("x", "xf", type) + widen("residual", "rf", type) +
          "  %b = kiln.broadcast %bias dims [1] like %x : <C>, <X> -> <F>\n"
          "  %t = arith.addf %xf, %b : <F>\n"
          "  %d = kiln.dropout %t, %seed, %offset p 0.3 : <F> -> <F>\n"
          "  %s = arith.addf %d, %rf : <F>\n" +
          narrow("s", "z", type) +
          "  %y, %mean, %rstd = kiln.layer_norm %s, %gamma, %beta : (<F>, <C>, <C>) -> (<X>, "
          "<R>, <R>)\n"
          "  return %z, %y, %mean, %rstd : <X>, <X>, <R>, <R>\n}\n",
      {{"X", tensor("?x", n, type)},
       {"F", tensor("?x", n, "f32")},
       {"C", tensor("", n, "f32")},
       {"R", "tensor<?xf32>"}});
}
std::string stochasticRoundText(Width n) {
  return fill(
      "func.func @stochastic_round(%x: <F>, %seed: tensor<i64>, %offset: tensor<i64>) -> <X> {\n"
      "  %y = kiln.stochastic_round %x, %seed, %offset : <F> -> <X>\n"
      "  return %y : <X>\n}\n",
      {{"X", tensor("?x", n, "bf16")}, {"F", tensor("?x", n, "f32")}});
}
std::string kernelText(Width n, const std::string& type) {
  return fill("func.func @kernel(%x: <X>) -> (<X>, <R>) {\n"
              "  %a = kiln.kernel \"first\"(%x) : (<X>) -> <X> {\n  ^bb0(%i: <X>):\n"
              "    %p = kiln.softmax %i : <X> -> <X>\n    kiln.yield %p : <X>\n  }\n"
              "  %b:2 = kiln.kernel \"second\"(%a, %x) : (<X>, <X>) -> (<X>, <R>) {\n"
              "  ^bb0(%i: <X>, %j: <X>):\n    %m = arith.mulf %i, %j : <X>\n"
              "    %s = kiln.reduce sum %m dims [1] : <X> -> <R>\n"
              "    kiln.yield %m, %s : <X>, <R>\n  }\n"
              "  return %b#0, %b#1 : <X>, <R>\n}\n",
              {{"X", tensor("?x", n, type)}, {"R", "tensor<?xf32>"}});
}
std::string scalarText(Width n) {
  return fill(
      "func.func @scalar(%x: <F>, %i: <I>, %m: <M>) -> (<F>, <I>, <M>) {\n"
      "  %zero = arith.constant dense<0.0> : tensor<f32>\n"
      "  %z = kiln.broadcast %zero dims [] like %x : tensor<f32>, <F> -> <F>\n"
      "  %a = math.absf %x : <F>\n  %b = math.sqrt %a : <F>\n  %c = math.sin %b : <F>\n"
      "  %d = math.cos %c : <F>\n  %e = math.exp2 %d : <F>\n  %f = math.log2 %e : <F>\n"
      "  %g = math.floor %x : <F>\n  %h = math.ceil %x : <F>\n"
      "  %j = arith.subf %h, %g : <F>\n  %k = math.fma %f, %j, %x : <F>\n"
      "  %l = arith.maxnumf %k, %z : <F>\n  %o = arith.minimumf %l, %a : <F>\n"
      "  %p = arith.sitofp %i : <I> to <F>\n  %q = arith.cmpf ult, %x, %o : <F>\n"
      "  %r = arith.cmpi sge, %i, %i : <I>\n  %s = arith.xori %q, %m : <M>\n"
      "  %t = arith.andi %s, %r : <M>\n  %u = arith.select %t, %o, %p : <M>, <F>\n"
      "  %v = arith.fptosi %x : <F> to <I>\n  %w = arith.addi %v, %i : <I>\n"
      "  %n = arith.muli %w, %w : <I>\n"
      "  return %u, %n, %t : <F>, <I>, <M>\n}\n",
      {{"F", tensor("?x", n, "f32")}, {"I", tensor("?x", n, "i32")}, {"M", tensor("?x", n, "i1")}});
}

/// Operations of many instructions, eight a round: more of them than a kernel writes out.
std::string calledText(Width n) {
  constexpr int rounds = 3;
  std::string text = "func.func @called(%v0: <F>) -> <F> {\n";
  for (int i = 0; i < rounds; ++i)
    text += fill("  %s<I> = math.sin %v<I> : <F>\n  %c<I> = math.cos %s<I> : <F>\n"
                 "  %q<I> = arith.divf %s<I>, %c<I> : <F>\n  %e<I> = math.erf %q<I> : <F>\n"
                 "  %l<I> = math.log2 %c<I> : <F>\n  %m<I> = math.expm1 %l<I> : <F>\n"
                 "  %r<I> = math.rsqrt %c<I> : <F>\n  %g<I> = math.log %r<I> : <F>\n"
                 "  %a<I> = arith.addf %e<I>, %m<I> : <F>\n"
                 "  %v<J> = arith.addf %a<I>, %g<I> : <F>\n",
                 {{"I", std::to_string(i)}, {"J", std::to_string(i + 1)}});
  text += fmt::format("  return %v{} : <F>\n}}\n", rounds);
  return fill(std::move(text), {{"F", tensor("?x", n, "f32")}});
}

/// Each order of two numbers chooses between others, and reads operands that are expressions.
std::string comparisonText(const std::string& order, Width n) {
  return fill("func.func @comparison(%x: <F>, %y: <F>) -> (<F>) {\n"
              "  %s = arith.addf %x, %y : <F>\n  %o = arith.cmpf olt, %s, %x : <F>\n"
              "  %a = arith.select %o, %y, %s : tensor<?x<N>xi1>, <F>\n"
              "  %b = arith.subf %x, %y : <F>\n"
              "  %c = arith.cmpf <O>, %a, %b : <F>\n"
              "  %d = arith.select %c, %x, %s : tensor<?x<N>xi1>, <F>\n"
              "  return %d : <F>\n}\n",
              {{"F", tensor("?x", n, "f32")}, {"N", std::to_string(n)}, {"O", order}});
}

} // namespace kiln::test
