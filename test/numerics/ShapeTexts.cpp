// See Texts.h: what moves or repeats rows and columns, and what is fused across operations.
#include "test/numerics/TextParts.h"

namespace kiln::test {

std::string leadingSumsText(Width n, const std::string& type, const std::vector<std::string>& lead,
                            const std::vector<std::vector<int>>& dims, const std::string& to,
                            const std::string& layout) {
  std::vector<std::string> sizes = lead;
  sizes.push_back(std::to_string(n));
  const std::string x = fmt::format("tensor<{}x{}>", fmt::join(sizes, "x"), type);
  std::string body;
  std::vector<std::string> names, types;
  for (const std::vector<int>& summed : dims) {
    std::string kept;
    for (std::size_t d = 0; d < sizes.size(); ++d)
      if (std::find(summed.begin(), summed.end(), d) == summed.end())
        kept += sizes[d] + "x";
    names.push_back(fmt::format("%s{}", fmt::join(summed, "_")));
    types.push_back(fmt::format("tensor<{}{}>", kept, to));
    body += fmt::format("  {} = kiln.reduce sum %x dims [{}] : {} -> {}\n", names.back(),
                        fmt::join(summed, ", "), x, types.back());
  }
  return fmt::format("func.func @sums(%x: {0}{1}) -> ({2}) {{\n{3}  return {4} : {2}\n}}\n", x,
                     layoutAttr(layout), fmt::join(types, ", "), body, fmt::join(names, ", "));
}
std::string rowMeansText(Width n, const std::string& type) {
  return fill(
      "func.func @means(%x: <X>) -> <R> {\n" + widen("x", "xf", type) +
          "  %m = kiln.reduce mean %xf dims [1] : <F> -> <R>\n  return %m : <R>\n}\n",
      {{"X", tensor("?x", n, type)}, {"F", tensor("?x", n, "f32")}, {"R", "tensor<?xf32>"}});
}

std::string sharedBiasText(Width n, const std::string& type, const std::string& bias) {
  return fill(R"(func.func @shared(%x: <X>, %b: <B>, %g: tensor<?x1x<N>x<T>>) -> <X> {
  %bf = arith.extf %b : <B> to tensor<6x<N>xf32>
  %xf = arith.extf %x : <X> to <F>
  %gf = arith.extf %g : tensor<?x1x<N>x<T>> to tensor<?x1x<N>xf32>
  %bb = kiln.broadcast %bf dims [1, 2] like %x : tensor<6x<N>xf32>, <X> -> <F>
  %gg = kiln.broadcast %gf dims [0, 1, 2] like %x : tensor<?x1x<N>xf32>, <X> -> <F>
  %s = arith.addf %xf, %bb : <F>
  %p = arith.mulf %s, %gg : <F>
  %y = arith.truncf %p : <F> to <X>
  return %y : <X>
}
)",
              {{"X", tensor("?x6x", n, type)},
               {"B", tensor("6x", n, bias)},
               {"F", tensor("?x6x", n, "f32")},
               {"N", std::to_string(n)},
               {"T", type}});
}
std::string gatherText(Width n, const std::string& type, const std::string& table,
                       const std::string& lead, const std::string& index, bool norm,
                       const std::string& options) {
  std::string text = "func.func @embed(%t: <T>, %i: <I>{1}) -> <X> {{\n"
                     "  %e = kiln.gather %t, %i {0} : <T>, <I> -> <X>\n";
  text +=
      norm ? "  %y, %r = kiln.rms_norm %e, %g : (<X>, <G>) -> (<X>, <R>)\n  return %y : <X>\n}}\n"
           : "  return %e : <X>\n}}\n";
  return fill(fmt::format(fmt::runtime(text), options, norm ? ", %g: <G>" : ""),
              {{"T", tensor(table + "x", n, type)},
               {"X", tensor(lead + "x", n, type)},
               {"I", fmt::format("tensor<{}x{}>", lead, index)},
               {"R", fmt::format("tensor<{}xf32>", lead)},
               {"G", tensor("", n, "f32")}});
}
std::string segmentSumText(Width n, const std::string& type, const std::string& segments,
                           const std::string& lead, const std::string& index, const std::string& to,
                           const std::string& options) {
  bool like = segments == "?";
  return fill(fmt::format("func.func @segments(%x: <X>, %i: <I>{0}) -> <Y> {{\n"
                          "  %s = kiln.segment_sum %x, %i {1} {2} : <X>, <I>{3} -> <Y>\n"
                          "  return %s : <Y>\n}}\n",
                          like ? ", %l: <L>" : "", like ? "like %l" : "", options,
                          like ? ", <L>" : ""),
              {{"X", tensor(lead + "x", n, type)},
               {"I", fmt::format("tensor<{}x{}>", lead, index)},
               {"Y", tensor(segments + "x", n, to)},
               {"L", tensor(segments + "x", n, "f16")}});
}
std::string ropeText(Width n, const std::string& type, const std::string& index,
                     const std::string& options, bool ofBatch) {
  return fill("func.func @rope(%x: <X>, %p: <P>) -> <X> {\n  %y = kiln.rope %x, %p dims [" +
                  std::string(ofBatch ? "0" : "1") + "] " + options +
                  " : <X>, <P> -> <X>\n  return %y : <X>\n}\n",
              {{"X", tensor("?x?x3x", n, type)}, {"P", rowValues("?x", index)}});
}
std::string normRopeText(Width n, const std::string& type, const std::string& options) {
  return fill("func.func @norm_rope(%x: <X>, %gamma: <G>, %p: <P>) -> <X> {\n"
              "  %n, %r = kiln.rms_norm %x, %gamma : (<X>, <G>) -> (<F>, <R>)\n"
              "  %y = kiln.rope %n, %p dims [0] " +
                  options + " : <F>, <P> -> <X>\n  return %y : <X>\n}\n",
              {{"X", tensor("?x3x", n, type)},
               {"F", tensor("?x3x", n, "f32")},
               {"R", "tensor<?x3xf32>"},
               {"G", tensor("", n, "f32")},
               {"P", "tensor<?xi32>"}});
}
std::string anglesText(Width n) {
  return fill("func.func @angles(%x: <X>) -> (<F>, <F>) {\n"
              "  %a = arith.extf %x : <X> to <F>\n  %s = math.sin %a : <F>\n"
              "  %c = math.cos %a : <F>\n  return %s, %c : <F>, <F>\n}\n",
              {{"X", tensor("?x", n, "bf16")}, {"F", tensor("?x", n, "f32")}});
}
std::string partnerText(Width n, const std::string& type, const std::string& pairs) {
  return fill("func.func @partner(%x: <X>, %c: <C>) -> (<X>, <X>, <R>) {\n" + constant("zero", 0) +
                  widen("x", "xf", type) +
                  "  %cb = kiln.broadcast %c dims [1] like %x : <C>, <X> -> <F>\n"
                  "  %w = arith.mulf %xf, %cb : <F>\n"
                  "  %o = kiln.partner %w pairs <" +
                  pairs + "> : <F> -> <F>\n  %q = arith.mulf %o, %xf : <F>\n" +
                  narrow("q", "y", type) + "  %z = kiln.partner %x pairs <" + pairs +
                  "> : <X> -> <X>\n  %s = kiln.reduce sum %q dims [1] : <F> -> <R>\n"
                  "  return %y, %z, %s : <X>, <X>, <R>\n}\n",
              {{"X", tensor("?x", n, type)},
               {"F", tensor("?x", n, "f32")},
               {"R", "tensor<?xf32>"},
               {"C", tensor("", n, "f32")}});
}
std::string severalNormsText(Width n, const std::string& type) {
  return fill("func.func @several_norms(%x: <X>, %g: <G>, %b: <G>, %h: <G>, %c: <G>) -> (<X>, <X>, "
              "<X>) {\n"
              "  %0, %m0, %r0 = kiln.layer_norm %x, %g, %b : (<X>, <G>, <G>) -> (<X>, <R>, <R>)\n"
              "  %1, %m1, %r1 = kiln.layer_norm %x, %h, %c : (<X>, <G>, <G>) -> (<X>, <R>, <R>)\n"
              "  %2, %m2, %r2 = kiln.layer_norm %x : (<X>) -> (<X>, <R>, <R>)\n"
              "  return %0, %1, %2 : <X>, <X>, <X>\n}\n",
              {{"X", tensor("?x", n, type)}, {"R", "tensor<?xf32>"}, {"G", tensor("", n, "f32")}});
}
std::string sumNormText(Width n, const std::string& type) {
  std::string text = "func.func @sum_norm(%x: <X>, %b: <X>, %c: <X>, %d: <X>, %g: <G>, %h: <G>) "
                     "-> (<X>, <X>) {\n" +
                     constant("zero", 0);
  for (const char* from : {"x", "b", "c", "d"})
    text += widen(from, fmt::format("{}f", from), type);
  text += "  %p = arith.addf %xf, %bf : <F>\n  %q = arith.addf %p, %cf : <F>\n"
          "  %s = arith.addf %q, %df : <F>\n" +
          narrow("s", "z", type);
  return fill(text + "  %y, %m, %r = kiln.layer_norm %s, %g, %h : (<F>, <G>, <G>) -> (<X>, <R>, "
                     "<R>)\n  return %z, %y : <X>, <X>\n}\n",
              {{"X", tensor("?x", n, type)},
               {"F", tensor("?x", n, "f32")},
               {"R", "tensor<?xf32>"},
               {"G", tensor("", n, "f32")}});
}
std::string residualNormText(Width n, const std::string& type) {
  return fill("func.func @residual_norm(%x: <X>, %r: <X>, %g: <G>) -> (<X>, <X>) {\n" +
                  constant("zero", 0) + widen("x", "xf", type) + widen("r", "rf", type) +
                  "  %h = arith.addf %xf, %rf : <F>\n" + narrow("h", "z", type) +
                  "  %y, %s = kiln.rms_norm %h, %g : (<F>, <G>) -> (<X>, <R>)\n"
                  "  return %z, %y : <X>, <X>\n}\n",
              {{"X", tensor("?x", n, type)},
               {"F", tensor("?x", n, "f32")},
               {"R", "tensor<?xf32>"},
               {"G", tensor("", n, type)}});
}
std::string normTransposeText(Width n, const std::string& type) {
  return fill(
      "func.func @norm_transpose(%x: <X>, %g: <G>, %b: <G>) -> (<X>, <R> {kiln.gradient = "
      "false}) {\n"
      "  %n, %m, %r = kiln.layer_norm %x, %g, %b : (<X>, <G>, <G>) -> (<X>, <R>, <R>)\n"
      "  %y = kiln.transpose %n [1, 0, 2] : <X> -> <X>\n"
      "  %t = kiln.transpose %m [1, 0] : <R> -> <R>\n"
      "  return %y, %t : <X>, <R>\n}\n",
      {{"X", tensor("?x?x", n, type)}, {"R", "tensor<?x?xf32>"}, {"G", tensor("", n, "f32")}});
}
std::string channelFirstText(Width n, const std::string& type, const std::string& lead) {
  return fill("func.func @channel_first(%x: <X>, %g: <G>, %b: <G>) -> (<Y>, <R> {kiln.gradient = "
              "false}) {\n"
              "  %n, %m, %r = kiln.layer_norm %x, %g, %b : (<X>, <G>, <G>) -> (<X>, <R>, <R>)\n"
              "  %y = kiln.transpose %n [2, 0, 1] : <X> -> <Y>\n  return %y, %m : <Y>, <R>\n}\n",
              {{"X", tensor(lead, n, type)},
               {"Y", fmt::format("tensor<{}x{}{}>", n, lead, type)},
               {"G", tensor("", n, "f32")},
               {"R", rowValues(lead, "f32")}});
}
std::string channelLastText(Width n, const std::string& type) {
  return fill("func.func @channel_last(%x: <C>, %z: <X>) -> (<X>, <C>) {\n" +
                  std::string("  %t = kiln.transpose %x [1, 2, 0] : <C> -> <X>\n"
                              "  %y = arith.mulf %t, %z : <X>\n"
                              "  %c = kiln.transpose %y [2, 0, 1] : <X> -> <C>\n"
                              "  return %y, %c : <X>, <C>\n}\n"),
              {{"X", tensor("?x?x", n, type)}, {"C", fmt::format("tensor<{}x?x?x{}>", n, type)}});
}
std::string movedText(const std::string& from, const std::string& to,
                      const std::string& permutation, const std::string& type) {
  return fill(fmt::format("func.func @moved(%x: <X>) -> <Y> {{\n  %y = kiln.transpose %x [{}] : "
                          "<X> -> <Y>\n  return %y : <Y>\n}}\n",
                          permutation),
              {{"X", fmt::format("tensor<{}x{}>", from, type)},
               {"Y", fmt::format("tensor<{}x{}>", to, type)}});
}
std::string transposeText(Width n, const std::string& type, const std::string& permutation,
                          const std::string& lead) {
  return fill(fmt::format("func.func @transpose(%x: <X>, %z: <Z>) -> (<Z>, <Z>) {{\n"
                          "  %e = math.exp %x : <X>\n"
                          "  %t = kiln.transpose %e [{0}] : <X> -> <Z>\n"
                          "  %y = arith.addf %t, %z : <Z>\n"
                          "  return %t, %y : <Z>, <Z>\n}}\n",
                          permutation),
              {{"X", tensor("?x3x5x", n, type)}, {"Z", tensor(lead, n, type)}});
}
std::string dropoutResidualText(Width n, const std::string& type, const std::string& shared) {
  return fill("func.func @dropout_residual(%x: <X>, %bias: <C>, %z: <X>, %seed: tensor<i64>, "
              "%offset: tensor<i64>) -> <X> {\n" +
                  constant("zero", 0) + widen("x", "xf", type) + widen("z", "zf", type) +
                  "  %b = kiln.broadcast %bias dims [2] like %x : <C>, <X> -> <F>\n"
                  "  %t = arith.addf %xf, %b : <F>\n"
                  "  %d = kiln.dropout %t, %seed, %offset p 0.25 shared " +
                  shared + " : <F> -> <F>\n  %s = arith.addf %zf, %d : <F>\n" +
                  narrow("s", "y", type) + "  return %y : <X>\n}\n",
              {{"X", tensor("?x5x", n, type)},
               {"F", tensor("?x5x", n, "f32")},
               {"C", tensor("", n, "f32")}});
}
std::string broadcastText(Width n, const std::string& type) {
  return fill("func.func @broadcast(%x: <X>, %row: <R>, %column: <C>, %outer: <O> {kiln.gradient = "
              "false}, %scalar: "
              "tensor<f32>) -> <X> {\n" +
                  constant("zero", 0) + widen("x", "xf", type) +
                  "  %a = kiln.broadcast %row dims [0, 1] like %x : <R>, <X> -> <F>\n"
                  "  %b = kiln.broadcast %column dims [2] like %x : <C>, <X> -> <F>\n"
                  "  %c = kiln.broadcast %outer dims [0, 1, 2] like %x : <O>, <X> -> <F>\n"
                  "  %d = kiln.broadcast %scalar dims [] like %x : tensor<f32>, <X> -> <F>\n"
                  "  %0 = arith.addf %xf, %a : <F>\n  %1 = arith.mulf %0, %b : <F>\n"
                  "  %2 = arith.addf %1, %c : <F>\n  %3 = arith.subf %2, %d : <F>\n" +
                  narrow("3", "y", type) + "  return %y : <X>\n}\n",
              {{"X", tensor("?x3x", n, type)},
               {"F", tensor("?x3x", n, "f32")},
               {"R", "tensor<?x3xf32>"},
               {"C", tensor("", n, "f32")},
               {"O", tensor("1x3x", n, "f32")}});
}
std::string stridedText(Width n, const std::string& type, const std::string& x,
                        const std::string& z, const std::string& w) {
  return fill(fmt::format("func.func @strided(%x: <X>{}, %z: <X>{}, %w: <X>{}) -> <X> {{\n",
                          layoutAttr(x), layoutAttr(z), layoutAttr(w)) +
                  constant("zero", 0) + widen("x", "xf", type) + widen("z", "zf", type) +
                  widen("w", "wf", type) +
                  "  %p = arith.mulf %xf, %zf : <F>\n  %q = arith.addf %p, %wf : <F>\n" +
                  narrow("q", "y", type) + "  return %y : <X>\n}\n",
              {{"X", tensor("?x4x", n, type)}, {"F", tensor("?x4x", n, "f32")}});
}

} // namespace kiln::test
