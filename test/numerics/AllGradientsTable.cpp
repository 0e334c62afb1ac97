// All gradients of attention in one kernel, whose blocks hold the bias: one block has all keys, or
// the two or three of a cluster, which hand each other the sums of queries; of many queries or keys
// in two kernels, which have some of the queries each. Odd and even numbers of groups
// of 64 queries, tiles, widths, masks, and biases that are shared along different dimensions.
#include "test/numerics/AttentionText.h"
#include "test/numerics/Builder.h"

#include <iterator>

namespace kiln::test {
namespace {

struct AllGradientsTable : Builder {
  void add(const std::string& name, const AttentionText& text, Sizes sizes, const HeldTiles& tiles,
           Fill fill = Fill::normal) {
    Case& made = Builder::add("Attention", "attention_all_gradients_" + name, text.gradients(),
                              std::move(sizes));
    made.schedule = tiles.text();
    made.fill = fill;
  }
  static AttentionText of(int queries, int keys, int width = 16) {
    return {.queries = queries,
            .keys = keys,
            .width = width,
            .valueWidth = width,
            .bias = fmt::format("1x2x{}x{}", queries, keys),
            .biasType = "bf16"};
  }

  void groupsOfQueries() {
    for (int queries : {1, 72, 136, 200, 256})
      for (int keys : {72, 136, 256})
        add(fmt::format("of_{}_queries_{}_keys", queries, keys), of(queries, keys), {3},
            {32, keys > 72 ? 128 : 64, 3, 1, 1});
  }
  /// More queries or keys than a block's registers have sums for.
  void partsOfQueries() {
    const HeldTiles three{32, 128, 2, 2, 1};
    for (auto [queries, keys] :
         {std::pair(1, 264), {72, 264}, {128, 384}, {136, 264}, {192, 320}, {200, 264}})
      add(fmt::format("three_blocks_of_{}_queries_{}_keys", queries, keys), of(queries, keys), {3},
          three);
    for (int keys : {72, 136, 256})
      add(fmt::format("parts_of_264_queries_{}_keys", keys), of(264, keys), {3},
          {32, keys > 72 ? 128 : 64, 3, 2, 1});
    add("parts_of_384_queries_384_keys", of(384, 384, 32), {2}, {32, 128, 3, 2, 1});
    add("parts_of_three_groups", of(200, 264), {7}, {64, 128, 2, 3, 1});
    const auto with = [&](auto change) { return changed(of(200, 264, 32), change); };
    add("parts_f16", with([](AttentionText& text) { text.type = text.biasType = "f16"; }), {3},
        three);
    add("parts_values_narrow", with([](AttentionText& text) { text.valueWidth = 16; }), {3},
        HeldTiles{32, 128, 3, 2, 1});
    add("parts_mask_of_keys", with([](AttentionText& text) { text.mask = "?x1x1x264"; }), {5},
        three);
    add("parts_closed", with([](AttentionText& text) { text.mask = "?x1x1x264"; }), {5}, three,
        Fill::closed);
    add("parts_two_leading", with([](AttentionText& text) {
          text.leading = {2, 0};
          text.bias = "2x1x2x200x264";
        }),
        {3}, three);
    add("parts_of_nothing", of(200, 264), {0}, three);
  }
  void tiles() {
    for (const HeldTiles& tiles : {HeldTiles{32, 128, 2, 1, 1}, HeldTiles{64, 64, 2, 2, 1},
                                   HeldTiles{32, 64, 2, 3, 1}, HeldTiles{32, 128, 6, 4, 1}})
      for (int rows : {1, 9})
        add(fmt::format("tiles_{}_{}_{}_{}_of_{}", tiles.queries, tiles.keys, tiles.stages,
                        tiles.groups, rows),
            of(150, 120), {rows}, tiles);
  }
  /// Narrow rows in one kernel by products of warps, which have all queries in one tile.
  void byWarps() {
    const auto addOne = [&](const std::string& name, AttentionText text, const Sizes& sizes,
                            HeldTiles tiles, Fill fill = Fill::normal) {
      tiles.products = "warps";
      if (text.attributes == AttentionText().attributes)
        text.attributes = "scale = 0.35355338 : f32";
      add("held_by_warps_" + name, text, sizes, tiles, fill);
    };
    for (int queries : {1, 72, 128, 200, 256})
      for (int keys : {72, 128, 136, 256})
        if (queries <= 128 || keys > 128)
          addOne(fmt::format("of_{}_queries_{}_keys", queries, keys), of(queries, keys, 8), {3},
                 {queries > 128 ? 256 : 128, 128, 2, 1, 1});
    const HeldTiles tiles{128, 128, 2, 2, 1};
    for (int rows : {1, 9})
      addOne(fmt::format("three_stages_of_{}", rows), of(100, 136, 8), {rows}, {128, 128, 3, 3, 1});
    const auto with = [&](auto change) { return changed(of(100, 136, 8), change); };
    addOne("f16", with([](AttentionText& text) { text.type = "f16"; }), {5}, tiles);
    addOne("scale_of_half",
           with([](AttentionText& text) { text.attributes = "scale = 0.5 : f32"; }), {5}, tiles);
    addOne("mask_of_keys", with([](AttentionText& text) { text.mask = "?x1x1x136"; }), {7}, tiles);
    addOne("closed", with([](AttentionText& text) { text.mask = "?x1x1x136"; }), {7}, tiles,
           Fill::closed);
    addOne("shared_by_all", with([](AttentionText& text) { text.bias = "1x1x100x136"; }), {3},
           tiles);
    addOne("two_leading", with([](AttentionText& text) {
             text.leading = {2, 0};
             text.bias = "2x1x2x100x136";
           }),
           {5}, tiles);
    addOne("nothing", of(100, 136, 8), {0}, tiles);
  }
  void others() {
    const HeldTiles two{32, 128, 3, 2, 1};
    const auto with = [&](auto change) { return changed(of(136, 136, 32), change); };
    add("width_8", of(136, 136, 8), {5}, two);
    add("width_32", of(256, 256, 32), {5}, two);
    add("f16", with([](AttentionText& text) { text.type = text.biasType = "f16"; }), {5}, two);
    add("values_narrow", with([](AttentionText& text) { text.valueWidth = 8; }), {3}, two);
    add("values_wider", with([](AttentionText& text) { text.width = 16; }), {3}, two);
    add("mask_of_keys", with([](AttentionText& text) { text.mask = "?x1x1x136"; }), {7}, two);
    add("closed", with([](AttentionText& text) { text.mask = "?x1x1x136"; }), {7}, two,
        Fill::closed);
    add("shared_by_all", with([](AttentionText& text) { text.bias = "1x1x136x136"; }), {3}, two);
    add("one_head", with([](AttentionText& text) {
          text.heads = text.keyHeads = 1;
          text.bias = "1x1x136x136";
        }),
        {4}, {32, 128, 3, 1, 1}); // clusters are counted by tiles of keys alone
    add("two_leading", with([](AttentionText& text) {
          text.leading = {2, 0};
          text.bias = "2x1x2x136x136";
        }),
        {5}, two);
    add("nothing", of(136, 136), {0}, two);
    byWarps();
    // By products of warps they are three kernels.
    add("by_warps", of(136, 136), {5}, two);
    cases.back().schedule = "#kiln.schedule<attention, queries = 32, keys = 64, stages = 2, "
                            "blocks = 1, launch = programmatic, groups = 2>";
  }
};

} // namespace

void addAllGradients(std::vector<Case>& cases) {
  AllGradientsTable all;
  all.groupsOfQueries();
  all.partsOfQueries();
  all.tiles();
  all.others();
  std::ranges::move(all.cases, std::back_inserter(cases));
}

} // namespace kiln::test
