// All gradients of attention without a bias in one kernel, whose blocks take turns to add to those
// of queries: tiles that end between rows, queries that see no key and keys that none sees, several
// turns and blocks of each head, groups of heads, masks of keys, and the kernels of their own that
// the same function is by other schedules.
#include "test/numerics/AttentionText.h"
#include "test/numerics/Builder.h"

#include <fmt/format.h>
#include <iterator>

namespace kiln::test {
namespace {

struct TurnsTiles {
  int queries, keys, stages = 2, blocks = 1;
  const char* products = "warpgroups";
  const char* bias = "read";
  std::string text() const {
    return fmt::format("#kiln.schedule<attention, queries = {}, keys = {}, stages = {}, blocks = "
                       "{}, launch = programmatic, groups = 1, products = {}, bias = {}>",
                       queries, keys, stages, blocks, products, bias);
  }
};

struct TurnsTable : Builder {
  static constexpr TurnsTiles wide = {64, 128}, narrow = {128, 128}; // of 128 and 64 elements

  void add(const std::string& name, const AttentionText& text, Sizes sizes, const TurnsTiles& tiles,
           Fill fill = Fill::normal) {
    Case& made =
        Builder::add("Attention", "attention_turns_" + name, text.gradients(), std::move(sizes));
    made.schedule = tiles.text();
    made.fill = fill;
  }
  static AttentionText of(int width, const std::string& causal = "none") {
    return {.width = width,
            .valueWidth = width,
            .attributes = fmt::format("scale = 0.125 : f32, causal = #kiln.causal<{}>", causal)};
  }

  void rows() {
    for (const char* causal : {"none", "first", "last"})
      for (auto [s, t] : {std::pair(1, 1), {1, 300}, {300, 1}, {128, 128}, {200, 330}, {330, 200}})
        add(fmt::format("{}_{}_{}", causal, s, t), of(128, causal), {1, s, t}, wide);
    add("no_queries", of(128), {2, 0, 200}, wide);
    add("no_keys", of(128), {2, 200, 0}, wide);
    add("nothing", of(128), {0, 70, 70}, wide);
    // So many keys that blocks are not staggered, and a wave of blocks that has fewer heads.
    add("long_last", of(64, "last"), {1, 130, 8300}, {64, 64});
    add("wave_last",
        changed(of(64, "last"), [](AttentionText& text) { text.heads = text.keyHeads = 11; }),
        {1, 70, 1000}, {64, 64});
  }
  void widths() {
    for (const char* causal : {"none", "last"}) {
      add(fmt::format("narrow_{}", causal), of(64, causal), {1, 300, 200}, narrow);
      for (const TurnsTiles& tiles :
           {TurnsTiles{64, 64, 2, 1}, TurnsTiles{64, 128, 4}, TurnsTiles{64, 128, 3}})
        add(fmt::format("narrow_{}_{}_{}", causal, tiles.keys, tiles.stages), of(64, causal),
            {1, 193, 257}, tiles);
    }
    add("values_narrower", changed(of(128), [](AttentionText& text) { text.valueWidth = 64; }),
        {1, 150, 140}, wide);
    add("values_wider", changed(of(64), [](AttentionText& text) { text.valueWidth = 128; }),
        {1, 150, 140}, {64, 64});
    add("f16", changed(of(128, "last"), [](AttentionText& text) { text.type = "f16"; }),
        {1, 150, 140}, wide);
  }
  void heads() {
    const auto shared = [](int heads, int keyHeads) {
      return changed(of(64, "last"), [&](AttentionText& text) {
        text.heads = heads;
        text.keyHeads = keyHeads;
      });
    };
    add("shared", shared(6, 2), {2, 150, 200}, narrow);
    add("shared_by_all", shared(3, 1), {1, 150, 200}, narrow);
    add("many", shared(9, 9), {2, 70, 140}, narrow); // more than are neighbours in the grid
    add("two_leading", changed(of(64), [](AttentionText& text) { text.leading = {2, 0}; }),
        {3, 70, 65}, narrow);
    add("constant_sizes",
        changed(of(64, "last"),
                [](AttentionText& text) {
                  text.leading = {2};
                  text.queries = 1100; // long enough to be one kernel
                  text.keys = 130;
                  text.heads = text.keyHeads = 1;
                }),
        {}, narrow);
  }
  void masks() {
    const auto masked =
        changed(of(64, "first"), [](AttentionText& text) { text.mask = "?x1x1x?"; });
    add("mask_of_keys", masked, {3, 150, 140}, narrow);
    add("closed", masked, {4, 150, 140}, narrow, Fill::closed);
    add("mask_of_heads",
        changed(of(64),
                [](AttentionText& text) {
                  text.mask = "1x4x1x?";
                  text.heads = 4;
                  text.keyHeads = 2;
                }),
        {2, 150, 140}, narrow);
  }
  /// Two kernels, one with the tiles turned round.
  void apart() {
    add("by_warps", of(64, "last"), {2, 70, 90}, {32, 64, 2, 1, "warps"});
    add("held", of(64, "last"), {2, 150, 90}, {64, 128, 3, 1, "warpgroups", "held"});
  }
};

} // namespace

void addTurns(std::vector<Case>& cases) {
  TurnsTable turns;
  turns.rows();
  turns.widths();
  turns.heads();
  turns.masks();
  turns.apart();
  std::ranges::move(turns.cases, std::back_inserter(cases));
}

} // namespace kiln::test
