// All gradients of attention by blocks that have a whole head each: keys that fill a warp's rows or
// not, one and two times 16 keys a warp, queries in one tile and in several, groups of heads, and
// all that hides places.
#include "test/numerics/AttentionText.h"
#include "test/numerics/Builder.h"

#include <fmt/format.h>
#include <functional>
#include <iterator>

namespace kiln::test {
namespace {

struct HeadsTable : Builder {
  /// `tile`: queries of a block at a time, and its keys.
  Case& addOne(const std::string& name, const std::string& text, Sizes sizes,
               std::pair<int, int> tile) {
    Case& made = Builder::add("Attention", "attention_heads_" + name, text, std::move(sizes));
    made.schedule =
        fmt::format("#kiln.schedule<attention, queries = {}, keys = {}, stages = 1, blocks = 1, "
                    "launch = programmatic, products = heads>",
                    tile.first, tile.second);
    return made;
  }
  using Change = std::function<void(Case&)>;
  void forward(const std::string& name, const AttentionText& text, const Sizes& sizes,
               std::pair<int, int> tile, const Change& change) {
    change(addOne("forward_" + name, text.text(), sizes, tile));
  }
  void add(
      const std::string& name, const AttentionText& text, const Sizes& sizes,
      std::pair<int, int> tile, const Change& change = [](Case&) {}) {
    change(addOne(name, text.gradients(), sizes, tile));
    forward(name, text, sizes, tile, change);
  }
  /// As many keys as the function's type tells.
  static AttentionText of(int keys, const std::string& more = "") {
    return {.keys = keys, .attributes = "scale = 0.25 : f32" + more};
  }

  void rows() {
    for (auto [queries, keys, tile] : {std::tuple(132, 132, std::pair(144, 144)),
                                       {132, 132, {160, 160}},
                                       {132, 132, {48, 144}},
                                       {132, 132, {64, 160}},
                                       {1, 17, {16, 48}},
                                       {17, 33, {32, 48}},
                                       {200, 20, {96, 32}},
                                       {33, 256, {32, 256}},
                                       {5, 40, {16, 80}},
                                       {64, 64, {64, 64}},
                                       {70, 18, {128, 64}}})
      add(fmt::format("{}_{}_{}_{}", queries, keys, tile.first, tile.second), of(keys),
          {2, queries}, tile);
    add("constant_sizes",
        changed(of(40),
                [](AttentionText& text) {
                  text.leading = {3};
                  text.queries = 50;
                }),
        {}, {64, 48});
    add("no_queries", of(40), {2, 0}, {32, 48});
    add("nothing", of(40), {0, 30}, {32, 48});
    add("two_leading", changed(of(24), [](AttentionText& text) { text.leading = {2, 0}; }), {3, 30},
        {32, 32});
    add("strided",
        changed(
            of(24),
            [](AttentionText& text) { text.queryLayout = "strides = [-1, -1, -1, 1], align = 2"; }),
        {2, 30}, {32, 32},
        [](Case& made) { made.strides = {{"q", {30 * 2 * 35, 35, 2 * 35, 1}}}; });
  }
  void widths() {
    for (int width : {8, 16, 24, 64})
      add(fmt::format("width_{}", width),
          changed(of(40),
                  [&](AttentionText& text) {
                    text.width = text.valueWidth = width;
                    text.type = width % 16 ? "f16" : "bf16";
                  }),
          {2, 50}, {64, 48});
    const auto other = [](int width, int valueWidth) {
      return changed(of(33), [&](AttentionText& text) {
        text.width = width;
        text.valueWidth = valueWidth;
      });
    };
    add("values_wider", other(16, 32), {2, 40}, {48, 48});
    add("values_narrower", other(32, 8), {2, 40}, {32, 64});
    for (int width : {3, 10, 29}) // rows that no wide access moves
      add(fmt::format("odd_width_{}", width), other(width, width + 3), {1, 20}, {32, 48});
  }
  void rules() {
    for (const char* causal : {"first", "last"})
      for (int queries : {20, 45, 90})
        add(fmt::format("causal_{}_{}", causal, queries),
            of(45, fmt::format(", causal = #kiln.causal<{}>", causal)), {2, queries},
            {queries > 45 ? 32 : 64, queries > 20 ? 48 : 64});
    add("window", of(45, ", window_left = 9, window_right = 4"), {2, 50}, {64, 48});
    for (double p : {0.1, 0.003, 1.0})
      add(fmt::format("dropout_{}", int(p * 1000)),
          changed(of(37), [&](AttentionText& text) { text.p = p; }), {2, 35}, {48, 48});
    add("packed",
        changed(of(24, ", causal = #kiln.causal<last>"),
                [](AttentionText& text) {
                  text.leading = {};
                  text.sequences = 4;
                }),
        {20}, {32, 32},
        [](Case& made) { made.numbers = {{"qs", {3, 8, 8, 15, 17}}, {"ks", {0, 9, 12, 12, 22}}}; });
  }
  void heads() {
    const auto shared = [](int heads, int keyHeads) {
      return changed(of(40), [&](AttentionText& text) {
        text.heads = heads;
        text.keyHeads = keyHeads;
      });
    };
    add("shared", shared(6, 2), {2, 50}, {64, 48});
    add("shared_by_all", shared(3, 1), {2, 50}, {32, 64});
  }
  void masks() {
    for (auto [name, mask] :
         {std::pair("own", "?x2x?x40"), {"keys", "?x1x1x40"}, {"rows", "1x1x?x40"}})
      for (Fill fill : {Fill::normal, Fill::closed})
        add(fmt::format("mask_{}_{}", name, nameOf(fill)),
            changed(of(40), [&](AttentionText& text) { text.mask = mask; }), {3, 50},
            fill == Fill::closed ? std::pair(32, 64) : std::pair(64, 48),
            [&](Case& made) { made.fill = fill; });
  }
  /// What gradients leave to kernels of their own.
  void forwardOnly() {
    const Change none = [](Case&) {};
    forward("softcap", of(40, ", softcap = 2.0 : f32"), {2, 50}, {48, 48}, none);
    forward("negative_scale", {.keys = 40, .attributes = "scale = -0.5 : f32"}, {2, 50}, {64, 64},
            none);
    for (auto [name, bias] :
         {std::pair("own", "?x2x?x40"), {"shared", "1x2x?x40"}, {"keys", "?x1x1x40"}})
      forward(fmt::format("bias_{}", name),
              changed(of(40), [&](AttentionText& text) { text.bias = bias; }), {3, 50}, {64, 48},
              none);
  }
  void hard() {
    for (Fill fill : {Fill::steep, Fill::nans, Fill::minusInf})
      add(fmt::format("hard_{}", nameOf(fill)), of(40), {2, 50}, {64, 48},
          [&](Case& made) { made.fill = fill; });
  }
};

} // namespace

void addHeads(std::vector<Case>& cases) {
  HeadsTable heads;
  heads.rows();
  heads.widths();
  heads.rules();
  heads.heads();
  heads.masks();
  heads.forwardOnly();
  heads.hard();
  std::ranges::move(heads.cases, std::back_inserter(cases));
}

} // namespace kiln::test
