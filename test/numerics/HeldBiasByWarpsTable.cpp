// Attention of rows of 8 elements that share a bias, by products of warps: tiles and heads side by
// side, types and scales, what hides places, and how a bias is shared.
#include "test/numerics/AttentionText.h"
#include "test/numerics/Builder.h"

#include <fmt/format.h>
#include <iterator>

namespace kiln::test {
namespace {

struct HeldBiasByWarpsTable : Builder {
  /// Forwards of narrow rows by products of warps.
  void forwards() {
    const AttentionText narrow = {.keys = 72,
                                  .width = 8,
                                  .valueWidth = 8,
                                  .bias = "1x2x?x72",
                                  .biasType = "bf16",
                                  .attributes = "scale = 0.35355338 : f32"};
    const auto addOne = [&](const std::string& name, auto change, const Sizes& sizes,
                            HeldTiles tiles, Fill fill = Fill::normal) {
      tiles.products = "warps";
      AttentionText text = narrow;
      change(text);
      Case& made =
          Builder::add("Attention", "attention_held_bias_by_warps_" + name, text.text(), sizes);
      made.schedule = tiles.text();
      made.fill = fill;
    };
    const auto as = [](AttentionText&) {};
    for (const HeldTiles& tiles :
         {HeldTiles{64, 32, 2, 1, 1}, HeldTiles{64, 64, 3, 2, 2}, HeldTiles{128, 96, 2, 1, 2},
          HeldTiles{256, 128, 2, 3, 1}, HeldTiles{64, 256, 2, 2, 4}})
      for (int rows : {1, 9})
        addOne(fmt::format("{}_{}_{}_{}_{}_of_{}", tiles.queries, tiles.keys, tiles.stages,
                           tiles.groups, tiles.side, rows),
               as, {rows, 150}, tiles);
    const HeldTiles tiles{64, 32, 2, 2, 2}, one{64, 96, 2, 1, 1};
    const auto f16 = [](AttentionText& text) { text.type = "f16"; }; // the bias is in bf16
    addOne("f16", f16, {5, 70}, tiles);
    addOne(
        "scale_of_half", [](AttentionText& text) { text.attributes = "scale = 0.5 : f32"; },
        {5, 70}, one);
    // Powers over the largest exponent of the first keys end the type's range.
    addOne(
        "steep", [](AttentionText& text) { text.attributes = "scale = 0.94117647 : f32"; }, {5, 70},
        tiles, Fill::steep);
    addOne(
        "steep_f16",
        [&](AttentionText& text) {
          f16(text);
          text.attributes = "scale = 0.94117647 : f32";
        },
        {5, 70}, one, Fill::steep);
    const auto masked = [](AttentionText& text) { text.mask = "?x1x1x72"; };
    addOne("mask_of_keys", masked, {7, 70}, tiles);
    addOne("mask_of_keys_of_one", masked, {7, 70}, one);
    addOne("closed", masked, {7, 70}, tiles, Fill::closed);
    addOne(
        "closed_f16",
        [&](AttentionText& text) {
          f16(text);
          masked(text);
        },
        {7, 70}, one, Fill::closed);
    addOne(
        "causal",
        [](AttentionText& text) {
          text.attributes = "scale = 0.25 : f32, causal = #kiln.causal<last>";
        },
        {3, 150}, tiles);
    addOne(
        "window",
        [](AttentionText& text) {
          text.attributes = "scale = 0.25 : f32, window_left = 10, window_right = 3";
        },
        {3, 150}, tiles);
    addOne("own", [](AttentionText& text) { text.bias = "?x2x?x72"; }, {3, 70}, {64, 32, 2, 1, 1});
    addOne("shared_by_all", [](AttentionText& text) { text.bias = "1x1x?x72"; }, {3, 70}, tiles);
    addOne("shared_by_heads", [](AttentionText& text) { text.bias = "?x1x?x72"; }, {3, 70}, one);
    addOne(
        "shared_keys",
        [](AttentionText& text) {
          text.heads = 6;
          text.bias = "1x6x?x72";
        },
        {3, 70}, tiles);
    addOne(
        "two_leading",
        [](AttentionText& text) {
          text.leading = {2, 0};
          text.bias = "2x1x2x?x72";
        },
        {5, 70}, tiles);
    addOne("nothing", as, {0, 70}, one);
    addOne("no_queries", as, {2, 0}, one);
  }
};

} // namespace

void addHeldBiasByWarps(std::vector<Case>& cases) {
  HeldBiasByWarpsTable held;
  held.forwards();
  std::ranges::move(held.cases, std::back_inserter(cases));
}

} // namespace kiln::test
