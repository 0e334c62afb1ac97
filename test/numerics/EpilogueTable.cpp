// Attention with elementwise math behind it in the same kernel: gates, residuals, dropout, other
// types and orders, one result and two, by every kind of kernel that stores an output.
#include "test/numerics/AttentionText.h"
#include "test/numerics/Builder.h"

#include <fmt/format.h>
#include <iterator>

namespace kiln::test {
namespace {

using Behind = AttentionText::Behind;

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  return text.replace(text.find(what), what.size(), by);
}

/// y = o sigmoid(g + b), of a bias of each head and column.
Behind gate(const AttentionText& of) {
  const std::string o = of.output();
  const std::string b = fmt::format("tensor<{}x{}x{}>", of.heads, of.valueWidth, of.type);
  return {{"%g: " + o, "%gb: " + b},
          fmt::format("  %same = kiln.broadcast %gb dims [{1}, {2}] like %g : {3}, {0} -> {0}\n"
                      "  %x = arith.addf %g, %same : {0}\n"
                      "  %s = kiln.sigmoid %x : {0} -> {0}\n"
                      "  %y = arith.mulf %o, %s : {0}\n",
                      o, of.leading.size(), of.leading.size() + 2, b),
          {"%y"},
          {o}};
}
/// The output itself and y = o r, of rows that all heads share.
Behind both(const AttentionText& of) {
  const std::string o = of.output(), r = fmt::format("tensor<{}x{}>", of.valueWidth, of.type);
  return {{"%r: " + r},
          fmt::format("  %same = kiln.broadcast %r dims [{}] like %o : {}, {} -> {}\n"
                      "  %y = arith.mulf %o, %same : {}\n",
                      of.leading.size() + 2, r, o, o, o),
          {"%o", "%y"},
          {o, o}};
}
/// y = dropout(o) + r.
Behind dropout(const AttentionText& of) {
  const std::string o = of.output();
  return {{"%r: " + o, "%seed_of_o: tensor<i64>", "%offset_of_o: tensor<i64>"},
          fmt::format("  %d = kiln.dropout %o, %seed_of_o, %offset_of_o p 0.3 : {0} -> {0}\n"
                      "  %y = arith.addf %d, %r : {0}\n",
                      o),
          {"%y"},
          {o}};
}
/// Rows before heads, of one leading dimension.
Behind turned(const AttentionText& of) {
  const std::string o = of.output();
  const std::string t =
      fmt::format("tensor<?x{}x{}x{}x{}>", of.queries ? std::to_string(of.queries) : "?", of.heads,
                  of.valueWidth, of.type);
  return {{"%r: " + t},
          fmt::format("  %t = kiln.transpose %o [0, 2, 1, 3] : {0} -> {1}\n"
                      "  %y = arith.addf %t, %r : {1}\n",
                      o, t),
          {"%y"},
          {t}};
}
/// In fp32, from where it was rounded, and a number of each row of all heads in it.
Behind widened(const AttentionText& of) {
  const std::string o = of.output(), f = replaced(o, "x" + of.type, "xf32");
  const std::string n = replaced(f, fmt::format("x{}xf32", of.valueWidth), "xf32");
  return {{"%n: " + n},
          fmt::format("  %w = arith.extf %o : {0} to {1}\n"
                      "  %same = kiln.broadcast %n dims [0, 1, 2] like %w : {2}, {1} -> {1}\n"
                      "  %y = arith.addf %w, %same : {1}\n",
                      o, f, n),
          {"%o", "%y"},
          {o, f}};
}

struct EpilogueTable : Builder {
  /// A kernel that a schedule asks for.
  struct Kind {
    std::string name, schedule;
    AttentionText text;
    Sizes sizes;
  };
  static std::vector<Kind> kinds() {
    const auto tiles = [](const char* more) {
      return fmt::format(
          "#kiln.schedule<attention, queries = 64, keys = 32, stages = 2, blocks = 1, "
          "launch = programmatic{}>",
          more);
    };
    const AttentionText held{.queries = 100, .keys = 80, .bias = "1x2x100x80", .biasType = "bf16"};
    AttentionText narrow = held;
    narrow.width = narrow.valueWidth = 8;
    return {
        {"warps", tiles(""), {}, {2, 70, 90}},
        {"warpgroups",
         tiles(", products = warpgroups"),
         {.width = 64, .valueWidth = 64},
         {2, 70, 90}},
        {"resident", tiles(", products = warpgroups, grid = resident"), {}, {70, 130, 40}},
        {"heads",
         replaced(tiles(", products = heads"), "keys = 32, stages = 2", "keys = 48, stages = 1"),
         {.queries = 40, .keys = 40},
         {3}},
        {"threads",
         replaced(tiles(", products = threads"), "keys = 32, stages = 2", "keys = 16, stages = 1"),
         {.width = 16, .valueWidth = 24},
         {30, 3, 5}},
        {"held", HeldTiles{.side = 2}.text(), held, {5}},
        {"held_by_warps",
         HeldTiles{.queries = 128, .keys = 64, .products = "warps"}.text(),
         narrow,
         {5}}};
  }

  void add(const Kind& kind, const std::string& name, const AttentionText& text,
           const Behind& behind) {
    Builder::add("Attention", "attention_epilogue_" + kind.name + "_" + name, text.text(behind),
                 kind.sizes)
        .schedule = kind.schedule;
  }
  void all() {
    for (const Kind& kind : kinds()) {
      if (kind.name != "held_by_warps") // which leaves what reads two tensors apart
        add(kind, "gate", kind.text, gate(kind.text));
      add(kind, "both", kind.text, both(kind.text));
      add(kind, "dropout", kind.text, dropout(kind.text));
      add(kind, "turned", kind.text, turned(kind.text));
      add(kind, "widened", kind.text, widened(kind.text));
    }
  }
  void widths() {
    const Kind warps = kinds().front();
    for (Kind kind : {warps, kinds()[4]})
      for (int width : {1, 21, 40}) {
        if (kind.name == "threads") // a block's, of wide rows fewer
          kind.schedule = replaced(kinds()[4].schedule, "queries = 64",
                                   width < 40 ? "queries = 32" : "queries = 16");
        AttentionText text = kind.text;
        text.width = width, text.valueWidth = 2 * width + 1;
        const std::string suffix = fmt::format("_of_{}", text.valueWidth);
        add(kind, "gate" + suffix, text, gate(text));
        add(kind, "dropout" + suffix, text, dropout(text));
        text.type = "f32";
        add(kind, "gate_f32" + suffix, text, gate(text));
      }
  }
  void shapes() {
    Kind warps = kinds().front();
    AttentionText text = warps.text;
    text.heads = 6, text.keyHeads = 2;
    add(warps, "shared_heads", text, gate(text));
    text = warps.text;
    text.leading = {2, 0};
    add(warps, "two_leading", text, both(text));
    warps.sizes = {0, 5, 7};
    add(warps, "nothing", warps.text, gate(warps.text));
    warps.sizes = {2, 5, 0}; // rows that see nothing are zeros
    add(warps, "no_keys", warps.text, widened(warps.text));
  }
  /// The forward as a training step runs it, which keeps the output for the backward.
  void gradients() {
    for (const auto& [name, behind] : {std::pair("gate", gate({})), {"dropout", dropout({})}}) {
      Case& made = Builder::add("Attention", fmt::format("attention_epilogue_{}", name),
                                AttentionText().text(behind), {2, 30, 40}, true);
      made.chained = true;
    }
  }
};

} // namespace

void addEpilogues(std::vector<Case>& cases) {
  EpilogueTable table;
  table.all();
  table.widths();
  table.shapes();
  table.gradients();
  std::ranges::move(table.cases, std::back_inserter(cases));
}

} // namespace kiln::test
