// Attention whose blocks hold the bias that heads share, forward and all gradients: tiles, widths,
// masks, sights, and biases that are shared along different dimensions.
#include "test/numerics/AttentionText.h"
#include "test/numerics/Builder.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <iterator>

namespace kiln::test {
namespace {

/// Forwards and gradients of queries whose blocks hold the bias that heads share.
struct HeldBiasTable : Builder {
  using Tiles = HeldTiles;
  void add(const std::string& name, const AttentionText& text, Sizes sizes, const Tiles& tiles,
           Fill fill = Fill::normal) {
    const bool fits = tiles.keys * tiles.queries * tiles.side <= 64 * 128; // in registers
    const bool backward = fits && fill != Fill::steep; // whose gradients of keys are subnormal
    Case& made = Builder::add("Attention", "attention_held_bias_" + name, text.text(),
                              std::move(sizes), backward);
    made.chained = backward;
    made.schedule = tiles.text();
    made.scheduleOfBackward = "{kiln_attention_backward_1 = " + tiles.text() +
                              ", kiln_attention_backward_2 = #kiln.schedule<attention, queries = "
                              "16, keys = 64, stages = 2, blocks = 1, launch = programmatic>}";
    made.fill = fill;
  }
  void forwards() {
    const AttentionText shared = {.keys = 72, .bias = "1x2x?x72", .biasType = "bf16"};
    const auto with = [&](auto change) { return changed(shared, change); };
    for (int width : {8, 16, 32, 64, 128})
      add(fmt::format("width_{}", width),
          with([&](AttentionText& text) { text.width = text.valueWidth = width; }), {5, 70}, {});
    add("f16", with([](AttentionText& text) { text.type = text.biasType = "f16"; }), {5, 70}, {});
    add("values_narrow", with([](AttentionText& text) { text.valueWidth = 8; }), {3, 70}, {});
    add("values_wider", with([](AttentionText& text) { text.valueWidth = 64; }), {3, 70}, {});
    for (const Tiles& tiles :
         {Tiles{64, 64, 3, 1, 2}, Tiles{128, 32, 4, 2, 2}, Tiles{64, 32, 6, 3, 4},
          Tiles{192, 64, 3, 1, 1}, Tiles{128, 128, 3, 5, 1}})
      for (int rows : {1, 9})
        add(fmt::format("tiles_{}_{}_{}_{}_{}_of_{}", tiles.queries, tiles.keys, tiles.stages,
                        tiles.groups, tiles.side, rows),
            shared, {rows, 130}, tiles);
    add("one_key_of_eight", with([](AttentionText& text) {
          text.keys = 8;
          text.bias = "1x2x?x8";
        }),
        {6, 33}, {64, 32, 3, 1, 2});
    add("tile_beyond_keys", with([](AttentionText& text) {
          text.keys = 8;
          text.bias = "1x2x?x8";
        }),
        {6, 33}, {64, 96, 3, 1, 1});
    add("mask_of_keys", with([](AttentionText& text) { text.mask = "?x1x1x72"; }), {7, 70},
        {64, 32, 3, 2, 2});
    add("closed", with([](AttentionText& text) { text.mask = "?x1x1x72"; }), {7, 70},
        {64, 64, 3, 1, 1}, Fill::closed);
    add("mask_of_places", with([](AttentionText& text) { text.mask = "1x1x?x72"; }), {7, 70},
        {128, 32, 3, 1, 1});
    add("own", with([](AttentionText& text) { text.bias = "?x2x?x72"; }), {3, 70}, {});
    add("shared_by_all", with([](AttentionText& text) { text.bias = "1x1x?x72"; }), {3, 70},
        {64, 32, 3, 4, 2});
    add("shared_by_heads", with([](AttentionText& text) { text.bias = "?x1x?x72"; }), {3, 70},
        {64, 32, 3, 1, 2});
    add("shared_keys", with([](AttentionText& text) {
          text.heads = 6;
          text.bias = "1x6x?x72";
        }),
        {3, 70}, {64, 32, 3, 1, 2});
    add("two_leading", with([](AttentionText& text) {
          text.leading = {2, 0};
          text.bias = "2x1x2x?x72";
        }),
        {5, 70}, {64, 32, 3, 2, 2});
    add("causal", with([](AttentionText& text) {
          text.attributes = "scale = 0.25 : f32, causal = #kiln.causal<last>";
        }),
        {3, 150}, {64, 32, 3, 1, 2});
    add("window", with([](AttentionText& text) {
          text.attributes = "scale = 0.25 : f32, window_left = 10, window_right = 3";
        }),
        {3, 150}, {64, 32, 3, 1, 1});
    add("dropout", with([](AttentionText& text) { text.p = 0.1; }), {3, 70}, {64, 32, 3, 1, 2});
    add("steep", with([](AttentionText& text) { text.attributes = "scale = 1.0 : f32"; }), {3, 70},
        {}, Fill::steep);
    for (const Tiles& tiles : {Tiles{64, 32, 2, 1, 1}, Tiles{128, 64, 2, 2, 2},
                               Tiles{64, 48, 3, 1, 3}, Tiles{64, 64, 2, 1, 4}}) {
      Tiles widened = tiles;
      widened.bias = "widened";
      const std::string name =
          fmt::format("widened_{}_{}_{}", tiles.queries, tiles.keys, tiles.side);
      add(name, shared, {5, 150}, widened);
      add(name + "_mask", with([](AttentionText& text) {
            text.type = text.biasType = "f16";
            text.mask = "?x1x1x72";
          }),
          {5, 70}, widened);
    }
    add("nothing", shared, {0, 70}, {});
    add("no_queries", shared, {2, 0}, {});
    add("evoformer",
        {.heads = 4,
         .keyHeads = 4,
         .keys = 136,
         .bias = "1x4x?x136",
         .biasType = "bf16",
         .mask = "?x1x1x136"},
        {9, 136}, {128, 64, 4, 2, 2});
  }

  /// All gradients of heads that have no bias, whose blocks take groups of them.
  void addWithoutBias(const std::string& name, const AttentionText& text, const Sizes& sizes,
                      const Tiles& ofQueries, const Tiles& ofKeys, Fill fill = Fill::normal) {
    Case& made = Builder::add("Attention", "attention_held_none_" + name, text.text(), sizes, true);
    made.chained = true;
    made.schedule = ofQueries.text();
    made.scheduleOfBackward = "{kiln_attention_backward_1 = " + ofQueries.text() +
                              ", kiln_attention_backward_2 = " + ofKeys.text() + "}";
    made.fill = fill;
  }
  /// Where both widths are 64 or more all gradients are one kernel (TurnsTable.cpp).
  void withoutBias() {
    const Tiles queries = {64, 32, 3, 2, 2}, keys = {32, 64, 3, 3, 2};
    addWithoutBias("plain", {.leading = {5}}, {70, 90}, queries, keys);
    addWithoutBias("narrow", {.leading = {5}, .width = 8, .valueWidth = 8}, {70, 90}, queries,
                   keys);
    addWithoutBias("wide", {.leading = {3}, .width = 64, .valueWidth = 32}, {140, 150},
                   {128, 32, 2, 1, 1}, {32, 128, 2, 1, 1});
    addWithoutBias("causal",
                   {.leading = {2},
                    .width = 32,
                    .valueWidth = 64,
                    .attributes = "scale = 0.25 : f32, causal = #kiln.causal<last>"},
                   {150, 170}, {128, 32, 2, 1, 1}, {32, 64, 2, 2, 1});
    addWithoutBias("column", {.leading = {9}, .heads = 4, .keyHeads = 4, .mask = "9x1x1x?"},
                   {132, 132}, queries, keys);
    addWithoutBias("dropout", {.leading = {3}, .p = 0.1}, {70, 90}, queries, keys);
    addWithoutBias("two_leading", {.leading = {2, 3}}, {70, 33}, queries, keys);
    addWithoutBias("no_keys", {.leading = {2}}, {70, 0}, queries, keys);
    addWithoutBias("no_queries", {.leading = {2}}, {0, 70}, queries, keys);
    // Of heads whose number is known at run time, a block has one.
    const Tiles query = {64, 32, 3, 1, 1}, key = {32, 64, 3, 1, 1};
    for (const Sizes& sizes : {Sizes{5, 70, 90}, {0, 70, 33}, {2, 70, 0}, {2, 0, 70}})
      addWithoutBias(fmt::format("open_{}", fmt::join(sizes, "x")), {}, sizes, query, key);
    addWithoutBias("open_causal",
                   {.width = 64,
                    .valueWidth = 32,
                    .attributes = "scale = 0.25 : f32, causal = #kiln.causal<last>"},
                   {2, 150, 170}, {128, 32, 2, 1, 1}, {32, 64, 2, 1, 1});
    addWithoutBias("open_column", {.heads = 4, .keyHeads = 4, .mask = "?x1x1x?"}, {9, 132, 132},
                   query, key);
    addWithoutBias("open_dropout", {.p = 0.1}, {3, 70, 90}, query, key);
    addWithoutBias("open_two_leading", {.leading = {0, 0}}, {2, 3, 70, 33}, query, key);
    add("none_open_shared_keys", {.heads = 6}, {3, 140, 150}, query);
    addWithoutBias("packed", {.leading = {}, .sequences = 4}, {100, 120}, queries,
                   {32, 64, 3, 2, 1});
    cases.back().numbers = {{"qs", {3, 40, 40, 90, 95}}, {"ks", {0, 50, 60, 60, 110}}};
  }
  /// As withoutBias, by what a row sees: groups = heads, so that a block has one head and one slot
  /// for its rows, and some of them, with two.
  void sights() {
    struct Sight {
      const char *name, *attributes;
      int queries, keys;
    };
    const Sight sights[] = {
        {"whole", "", 130, 150},
        {"first", ", causal = #kiln.causal<first>", 150, 150},
        {"last", ", causal = #kiln.causal<last>", 192, 192},
        {"last_more_queries", ", causal = #kiln.causal<last>", 200, 70},
        {"first_more_keys", ", causal = #kiln.causal<first>", 70, 200},
        {"window", ", window_left = 40, window_right = 70", 200, 170},
        {"causal_window", ", causal = #kiln.causal<last>, window_left = 9", 140, 200}};
    constexpr int heads = 10; // of five of two
    for (int groups : {heads, 3})
      for (const Sight& sight : sights) {
        const auto addOne = [&](const std::string& name, const AttentionText& text, Fill fill) {
          addWithoutBias(fmt::format("{}_{}_groups_{}", sight.name, name, groups), text,
                         {sight.queries, sight.keys}, {64, 32, 3, groups, 1},
                         {32, 64, 3, groups, 1}, fill);
        };
        AttentionText text = {.leading = {5},
                              .attributes = std::string("scale = 0.25 : f32") + sight.attributes};
        addOne("plain", text, Fill::normal);
        text.mask = "5x1x1x?";
        addOne("closed", text, Fill::closed);
        if (groups == heads)
          continue;
        text = {.leading = {},
                .heads = 4,
                .keyHeads = 4,
                .sequences = 4,
                .attributes = text.attributes};
        for (int ofFour : {4, 2}) {
          addWithoutBias(fmt::format("{}_packed_groups_{}", sight.name, ofFour), text,
                         {sight.queries, sight.keys}, {64, 32, 3, ofFour, 1},
                         {32, 64, 3, ofFour, 1});
          cases.back().numbers = {{"qs", {3, 20, 20, 60, 65}}, {"ks", {0, 30, 50, 50, 70}}};
        }
      }
    addWithoutBias("side_by_side_of_one", {.leading = {5}}, {70, 90}, {64, 32, 3, 5, 2},
                   {32, 64, 3, 5, 2});
    addWithoutBias("wide_tiles_of_one",
                   {.leading = {3},
                    .width = 32,
                    .valueWidth = 64,
                    .attributes = "scale = 0.25 : f32, causal = #kiln.causal<last>"},
                   {280, 290}, {128, 64, 2, 6, 1}, {64, 64, 2, 6, 1});
    // Keys and values that heads share: forward and the gradient of queries.
    for (int groups : {18, 4})
      add(fmt::format("none_shared_keys_groups_{}", groups),
          {.leading = {3},
           .heads = 6,
           .attributes = "scale = 0.25 : f32, causal = #kiln.causal<last>"},
          {140, 150}, {64, 32, 3, groups, 1});
  }
  /// Gradients of keys and values, and of the bias, whose blocks hold it too. `ofKeys`: blocks have
  /// keys and walk over queries.
  void addGradients(const std::string& name, const AttentionText& text, Sizes sizes,
                    const Tiles& ofKeys, const Tiles& ofBias, Fill fill = Fill::normal) {
    Case& made = Builder::add("Attention", "attention_held_bias_gradients_" + name, text.text(),
                              std::move(sizes), true);
    made.chained = true;
    const Tiles ofQueries = {64, 32, 2, 1, ofBias.side};
    made.scheduleOfBackward = "{kiln_attention_backward_1 = " + ofQueries.text() +
                              ", kiln_attention_backward_2 = " + ofKeys.text() +
                              ", kiln_attention_backward_3 = " + ofBias.text() + "}";
    made.fill = fill;
  }
  void gradients() {
    // A window, however wide, keeps the gradient of the bias a kernel of its own.
    const AttentionText shared = {.queries = 72,
                                  .keys = 72,
                                  .bias = "1x2x72x72",
                                  .biasType = "bf16",
                                  .attributes = "scale = 0.25 : f32, window_left = 400"};
    const auto with = [&](auto change) { return changed(shared, change); };
    const Tiles keys = {32, 64, 3, 1, 1}, bias = {64, 64, 2, 1, 1};
    for (int width : {8, 16, 32, 64})
      addGradients(fmt::format("width_{}", width),
                   with([&](AttentionText& text) { text.width = text.valueWidth = width; }), {5},
                   keys, bias);
    addGradients("width_128",
                 with([&](AttentionText& text) { text.width = text.valueWidth = 128; }), {3},
                 {16, 64, 2, 1, 1}, {64, 32, 2, 1, 1});
    addGradients("f16", with([](AttentionText& text) { text.type = text.biasType = "f16"; }), {5},
                 keys, bias);
    addGradients("values_narrow", with([](AttentionText& text) { text.valueWidth = 8; }), {3}, keys,
                 bias);
    addGradients("values_wider", with([](AttentionText& text) { text.valueWidth = 64; }), {3}, keys,
                 bias);
    const std::pair<Tiles, Tiles> tiles[] = {{{32, 64, 3, 1, 2}, {64, 32, 2, 1, 2}},
                                             {{64, 128, 4, 2, 1}, {128, 64, 2, 2, 1}},
                                             {{32, 128, 2, 3, 1}, {64, 128, 3, 3, 1}},
                                             {{32, 192, 2, 1, 1}, {192, 32, 2, 1, 1}},
                                             {{32, 64, 4, 2, 3}, {64, 64, 4, 2, 3}}};
    for (const auto& [ofKeys, ofBias] : tiles)
      for (int rows : {1, 9})
        addGradients(fmt::format("tiles_{}_{}_{}_{}_{}_of_{}", ofKeys.queries, ofKeys.keys,
                                 ofKeys.stages, ofKeys.groups, ofKeys.side, rows),
                     with([](AttentionText& text) {
                       text.queries = 150;
                       text.bias = "1x2x150x72";
                     }),
                     {rows}, ofKeys, ofBias);
    addGradients("more_keys", with([](AttentionText& text) {
                   text.queries = 33;
                   text.keys = 200;
                   text.bias = "1x2x33x200";
                 }),
                 {3}, {32, 64, 2, 1, 2}, bias);
    addGradients("eight_keys", with([](AttentionText& text) {
                   text.keys = 8;
                   text.bias = "1x2x72x8";
                 }),
                 {6}, {32, 64, 2, 1, 2}, {64, 32, 2, 1, 2});
    addGradients("mask_of_keys", with([](AttentionText& text) { text.mask = "?x1x1x72"; }), {7},
                 {32, 64, 3, 2, 2}, {64, 64, 2, 2, 1});
    addGradients("closed", with([](AttentionText& text) { text.mask = "?x1x1x72"; }), {7}, keys,
                 bias, Fill::closed);
    addGradients("mask_of_places", with([](AttentionText& text) { text.mask = "1x1x72x72"; }), {7},
                 keys, bias);
    addGradients("own", with([](AttentionText& text) { text.bias = "?x2x72x72"; }), {3}, keys,
                 bias);
    addGradients("shared_by_all", with([](AttentionText& text) { text.bias = "1x1x72x72"; }), {3},
                 {32, 64, 3, 4, 2}, {64, 64, 3, 4, 1});
    addGradients("two_leading", with([](AttentionText& text) {
                   text.leading = {2, 0};
                   text.bias = "2x1x2x72x72";
                 }),
                 {5}, {32, 64, 3, 2, 2}, {64, 32, 3, 2, 2});
    addGradients("causal", with([](AttentionText& text) {
                   text.queries = 150;
                   text.bias = "1x2x150x72";
                   text.attributes = "scale = 0.25 : f32, causal = #kiln.causal<last>";
                 }),
                 {3}, keys, bias);
    addGradients("window", with([](AttentionText& text) {
                   text.queries = 150;
                   text.bias = "1x2x150x72";
                   text.attributes = "scale = 0.25 : f32, window_left = 10, window_right = 3";
                 }),
                 {3}, {32, 64, 2, 1, 2}, bias);
    addGradients("dropout", with([](AttentionText& text) { text.p = 0.1; }), {3}, keys, bias);
    addGradients("nothing", shared, {0}, keys, bias);
  }
  /// The gradient of the bias, summed in the kernel of keys and values, without those of queries.
  void addSums(const std::string& name, const AttentionText& text, Sizes sizes, const Tiles& ofKeys,
               Fill fill = Fill::normal) {
    Case& made = Builder::add("Attention", "attention_held_bias_sums_" + name,
                              text.gradients(/*ofQueries=*/false), std::move(sizes));
    made.schedule = ofKeys.text();
    made.fill = fill;
  }
  void sums() {
    const AttentionText shared = {
        .queries = 72, .keys = 72, .bias = "1x2x72x72", .biasType = "bf16"};
    const auto with = [&](auto change) { return changed(shared, change); };
    const Tiles tiles = {32, 64, 3, 1, 1};
    for (int width : {8, 16, 32})
      addSums(fmt::format("width_{}", width),
              with([&](AttentionText& text) { text.width = text.valueWidth = width; }), {5}, tiles);
    addSums("f16", with([](AttentionText& text) { text.type = text.biasType = "f16"; }), {5},
            tiles);
    addSums("values_narrow", with([](AttentionText& text) { text.valueWidth = 8; }), {3}, tiles);
    for (const Tiles& of :
         {Tiles{32, 64, 3, 1, 2}, Tiles{32, 128, 4, 2, 1}, Tiles{32, 128, 2, 3, 1},
          Tiles{32, 64, 6, 4, 1}, Tiles{64, 64, 2, 1, 1}})
      for (int rows : {1, 9})
        addSums(fmt::format("tiles_{}_{}_{}_{}_{}_of_{}", of.queries, of.keys, of.stages, of.groups,
                            of.side, rows),
                with([](AttentionText& text) {
                  text.width = text.valueWidth = 16;
                  text.queries = 150;
                  text.bias = "1x2x150x72";
                }),
                {rows}, of);
    addSums("most_queries", with([](AttentionText& text) {
              text.queries = 256; // two tiles of sums lie in shared memory
              text.keys = 136;
              text.bias = "1x2x256x136";
            }),
            {3}, {32, 128, 3, 2, 1});
    addSums("one_query", with([](AttentionText& text) {
              text.queries = 1;
              text.bias = "1x2x1x72";
            }),
            {5}, tiles);
    addSums("eight_keys", with([](AttentionText& text) {
              text.keys = 8;
              text.bias = "1x2x72x8";
            }),
            {6}, {32, 64, 2, 1, 2});
    addSums("mask_of_keys", with([](AttentionText& text) { text.mask = "?x1x1x72"; }), {7},
            {32, 64, 3, 2, 2});
    addSums("closed", with([](AttentionText& text) { text.mask = "?x1x1x72"; }), {7}, tiles,
            Fill::closed);
    addSums("shared_by_all", with([](AttentionText& text) { text.bias = "1x1x72x72"; }), {3},
            {32, 64, 3, 4, 2});
    addSums("two_leading", with([](AttentionText& text) {
              text.leading = {2, 0};
              text.bias = "2x1x2x72x72";
            }),
            {5}, {32, 64, 3, 2, 2});
    addSums("nothing", shared, {0}, tiles);
    addSums("evoformer",
            {.heads = 4,
             .keyHeads = 4,
             .queries = 136,
             .keys = 136,
             .bias = "1x4x136x136",
             .biasType = "bf16",
             .mask = "?x1x1x136"},
            {9}, {32, 128, 3, 2, 1});
    // By products of warps the gradient of the bias is a second kernel.
    addSums("by_warps", shared, {5}, tiles);
    cases.back().schedule = "#kiln.schedule<attention, queries = 32, keys = 64, stages = 2, "
                            "blocks = 1, launch = programmatic, groups = 2>";
  }
};

} // namespace

void addHeldBias(std::vector<Case>& cases) {
  HeldBiasTable held;
  held.forwards();
  held.withoutBias();
  held.sights();
  held.gradients();
  held.sums();
  std::ranges::move(held.cases, std::back_inserter(cases));
}

} // namespace kiln::test
