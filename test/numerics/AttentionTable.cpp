// Attention and its gradients, the forward and the backward as a training step runs them: each rule
// that hides places, biases and their gradients, shared heads, odd sizes and widths, all types.
#include "test/numerics/AttentionText.h"
#include "test/numerics/Builder.h"

#include <algorithm>
#include <iterator>

namespace kiln::test {
namespace {

std::string tiles(int queries, int keys, int stages, int groups = 1) {
  return fmt::format("#kiln.schedule<attention, queries = {}, keys = {}, stages = {}, blocks = 1, "
                     "launch = programmatic, groups = {}>",
                     queries, keys, stages, groups);
}

/// Attributes beside a scale.
std::string with(const std::string& more) {
  return "scale = 0.25 : f32, " + more;
}

struct AttentionTable : Builder {
  /// As a training step runs it.
  Case& attention(const std::string& name, const AttentionText& text, Sizes sizes) {
    Case& made = add("Attention", "attention_" + name, text.text(), std::move(sizes), true);
    made.chained = true;
    return made;
  }
  /// Its backward alone, of an lse that is drawn too.
  Case& backwardAlone(const std::string& name, const AttentionText& text, Sizes sizes) {
    return add("AttentionBackward", "attention_alone_" + name, text.text(), std::move(sizes), true);
  }
  void backwardsAlone() {
    backwardAlone("bf16", {}, {1, 37, 45});
    backwardAlone("f32",
                  {.width = 7, .valueWidth = 5, .type = "f32", .attributes = "scale = 1.0 : f32"},
                  {2, 21, 18});
    backwardAlone("packed", {.leading = {}, .sequences = 3}, {50, 60}).numbers = {
        {"qs", {0, 20, 20, 50}}, {"ks", {0, 31, 40, 60}}};
  }

  void widths() {
    for (const char* type : {"bf16", "f16", "f32"})
      for (int width : {8, 16, 24, 32, 40, 48, 64, 80, 96, 128, 192, 256}) {
        const bool isUsual = width == 64 || width == 8 || width == 192 || type[0] == 'b';
        if (isUsual)
          attention(fmt::format("{}_{}", type, width),
                    {.width = width,
                     .valueWidth = width,
                     .type = type,
                     .attributes = "scale = 0.125 : f32, causal = #kiln.causal<last>"},
                    {1, 37, 45});
      }
    attention("values_wider", {.width = 16, .valueWidth = 72}, {2, 19, 33});
    attention("values_narrower", {.width = 64, .valueWidth = 24, .type = "f16"}, {2, 19, 33});
    for (int width : {1, 3, 10, 20, 33}) // rows that no wide access moves
      attention(fmt::format("odd_width_{}", width), {.width = width, .valueWidth = 2 * width + 1},
                {1, 21, 18});
    attention("odd_width_f32", {.width = 7, .valueWidth = 5, .type = "f32"}, {1, 21, 18});
    for (int width : {64, 128, 256}) // long sums, of which tensor cores cut off
      attention(
          fmt::format("long_sums_{}", width),
          {.width = width, .valueWidth = width, .type = "f32", .attributes = "scale = 0.125 : f32"},
          {1, 40, 500});
  }

  /// Rows so wide that their sums take half of a thread's registers, with what takes more of them.
  void wide() {
    for (const char* type : {"bf16", "f32"}) {
      const AttentionText text{.width = 256, .valueWidth = 256, .type = type};
      const auto add = [&](const char* name, auto change) {
        attention(fmt::format("wide_{}_{}", type, name), changed(text, change), {1, 37, 45});
      };
      add("mask_causal", [](AttentionText& t) {
        t.mask = "?x2x?x?", t.attributes = with("causal = #kiln.causal<last>");
      });
      add("mask_bias", [](AttentionText& t) { t.mask = "?x2x?x?", t.bias = "1x2x?x?"; });
      add("dropout_softcap", [](AttentionText& t) {
        t.p = 0.1, t.attributes = "scale = 0.125 : f32, softcap = 3.0 : f32";
      });
      add("dropout_window", [](AttentionText& t) {
        t.p = 0.1, t.attributes = with("window_left = 9, window_right = 3");
      });
    }
  }

  /// Where what is right is small beside its roundings: probabilities below fp16's normal numbers,
  /// sums of exponentials near 1.
  void small() {
    for (const char* type : {"bf16", "f16"}) {
      attention(fmt::format("small_{}_probabilities", type),
                {.heads = 2,
                 .keyHeads = 1,
                 .width = 192,
                 .valueWidth = 256,
                 .type = type,
                 .mask = "?x1x1x?",
                 .attributes = "scale = -0.5 : f32"},
                {1, 17, 70});
      attention(fmt::format("small_{}_lse", type),
                {.heads = 4,
                 .keyHeads = 4,
                 .width = 24,
                 .valueWidth = 24,
                 .type = type,
                 .bias = "1x4x?x?",
                 .mask = "?x4x?x?",
                 .attributes = "scale = 0.001 : f32"},
                {2, 65, 64});
    }
  }

  void rows() {
    for (auto [s, t] : {std::pair(1, 1), {1, 130}, {130, 1}, {64, 64}, {65, 127}, {150, 70}})
      attention(fmt::format("rows_{}_{}", s, t), {}, {1, s, t});
    attention("constant_sizes",
              {.leading = {3},
               .heads = 1,
               .keyHeads = 1,
               .queries = 33,
               .keys = 48,
               .width = 16,
               .valueWidth = 16},
              {});
    attention("no_leading", {.leading = {}}, {40, 50});
    attention("two_leading", {.leading = {2, 0}}, {3, 17, 23});
    attention("nothing", {}, {0, 5, 7});
    attention("no_queries", {}, {2, 0, 7});
    attention("bias_of_shared_heads_strided",
              {.heads = 4,
               .keyHeads = 2,
               .bias = "1x4x?x?",
               .queryLayout = "strides = [-1, -1, -1, 1], align = 2"},
              {2, 21, 35})
        .strides = {{"q", {21 * 4 * 35, 35, 4 * 35, 1}}};
    attention("strided", {.queryLayout = "strides = [-1, -1, -1, 1], align = 2"}, {2, 21, 35})
        .strides = {{"q", {21 * 3 * 35, 35, 3 * 35, 1}}};
    attention("scattered", {.queryLayout = "strides = [-1, -1, -1, -1], align = 2"}, {2, 21, 35})
        .strides = {{"q", {2 * 21 * 32, 21 * 32, 1, 21}}};
  }

  void rules() {
    for (const char* causal : {"first", "last"})
      for (auto [s, t] : {std::pair(90, 90), {70, 100}, {100, 70}})
        attention(fmt::format("causal_{}_{}_{}", causal, s, t),
                  {.attributes = with(fmt::format("causal = #kiln.causal<{}>", causal))},
                  {1, s, t});
    attention("window", {.attributes = with("window_left = 20, window_right = 5")}, {1, 140, 150});
    attention("window_of_all", {.attributes = with("window_left = 4294967301, window_right = 5")},
              {1, 40, 50});
    attention("window_left", {.attributes = with("window_left = 0, causal = #kiln.causal<last>")},
              {1, 40, 50});
    attention("window_right", {.attributes = with("window_right = 3, causal = #kiln.causal<last>")},
              {1, 150, 80});
    attention("softcap", {.attributes = with("softcap = 2.0 : f32")}, {2, 50, 40});
    attention("softcap_f32", {.type = "f32", .attributes = with("softcap = 2.0 : f32")},
              {1, 30, 40});
    attention("negative_scale", {.attributes = "scale = -0.5 : f32"}, {1, 30, 40});
    attention("shared_heads", {.heads = 6, .keyHeads = 2}, {2, 33, 45});
    attention("shared_heads_strided",
              {.heads = 6, .keyHeads = 2, .queryLayout = "strides = [-1, -1, -1, 1], align = 2"},
              {2, 33, 45})
        .strides = {{"q", {33 * 6 * 40, 40, 6 * 40, 1}}};
    attention("one_key_head", {.heads = 4, .keyHeads = 1, .width = 8, .valueWidth = 8}, {3, 1, 70});
    attention("four_keys", {.heads = 4, .keyHeads = 4, .width = 16, .valueWidth = 16}, {30, 1, 4});
    for (double p : {0.1, 0.003, 1.0})
      attention(fmt::format("dropout_{}", int(p * 1000)), {.p = p}, {1, 35, 47});
    // Rows of scores that begin where numbers of a counter do, which are eight, or four.
    attention("dropout_aligned", {.p = 0.1}, {2, 70, 160});
    attention("dropout_aligned_words", {.p = 0.003}, {1, 35, 48});
    Case& packed = attention(
        "packed",
        {.leading = {}, .sequences = 4, .attributes = with("causal = #kiln.causal<last>")},
        {100, 120});
    packed.numbers = {{"qs", {3, 40, 40, 90, 95}}, {"ks", {0, 50, 60, 60, 110}}};
    Case& apart = attention("packed_window",
                            {.leading = {},
                             .heads = 4,
                             .sequences = 3,
                             .attributes = with("window_left = 10, window_right = 0")},
                            {80, 80});
    apart.numbers = {{"qs", {0, 30, 31, 80}}, {"ks", {0, 30, 31, 80}}};
  }

  void biases() {
    for (auto [name, bias] : {std::pair("own", "?x2x?x?"),
                              {"shared", "1x2x?x?"},
                              {"all", "1x1x1x1"},
                              {"keys", "?x1x1x?"},
                              {"rows", "?x2x?x1"},
                              {"heads", "?x1x?x?"}})
      attention(fmt::format("bias_{}", name), {.bias = bias}, {3, 37, 45});
    attention("bias_shared_heads", {.heads = 6, .keyHeads = 2, .bias = "1x6x?x?"}, {3, 20, 33});
    attention("bias_bf16", {.bias = "1x2x?x?", .biasType = "bf16"}, {5, 70, 70});
    attention("bias_softcap",
              {.bias = "1x2x?x?", .attributes = "scale = 0.5 : f32, softcap = 3.0 : f32"},
              {2, 20, 33});
    attention("bias_f32", {.type = "f32", .bias = "1x2x?x?"}, {4, 20, 33});
    for (auto [name, mask] :
         {std::pair("own", "?x2x?x?"), {"keys", "?x1x1x?"}, {"rows", "1x1x?x?"}}) {
      attention(fmt::format("mask_{}", name), {.mask = mask}, {2, 37, 45});
      attention(fmt::format("mask_closed_{}", name), {.mask = mask}, {2, 37, 45}).fill =
          Fill::closed;
    }
    attention("evoformer",
              {.heads = 4, .keyHeads = 4, .bias = "1x4x?x?", .biasType = "bf16", .mask = "?x1x1x?"},
              {5, 40, 40});
  }

  void hard() {
    for (Fill fill : {Fill::steep, Fill::nans, Fill::minusInf})
      for (const char* type : {"bf16", "f32"})
        add("Attention", fmt::format("hard_attention_{}_{}", type, nameOf(fill)),
            AttentionText{.type = type, .attributes = "scale = 1.0 : f32"}.text(), {1, 30, 40})
            .fill = fill;
  }

  void schedules() {
    for (int queries : {16, 32, 64, 128})
      for (int keys : {16, 32, 64})
        for (int stages : {1, 2, 3})
          if ((queries / 16 + keys / 16 + stages) % 3 == 0) {
            Case& made =
                add("Attention", fmt::format("attention_tiles_{}_{}_{}", queries, keys, stages),
                    AttentionText{.attributes = "scale = 0.25 : f32, causal = #kiln.causal<first>"}
                        .text(),
                    {1, 140, 140});
            made.schedule = tiles(queries, keys, stages);
          }
  }
};

/// Forwards by products of warpgroups, in blocks for each tile and in blocks that stay.
struct WarpgroupTable : Builder {
  explicit WarpgroupTable(bool stay) : stay(stay) {}
  void add(const std::string& name, const AttentionText& text, Sizes sizes, int queries = 64,
           int keys = 32, int stages = 2, Fill fill = Fill::normal) {
    Case& made = Builder::add(
        "Attention", fmt::format("attention_{}_{}", stay ? "resident" : "warpgroups", name),
        text.text(), std::move(sizes));
    made.schedule = fmt::format("#kiln.schedule<attention, queries = {}, keys = {}, stages = {}, "
                                "blocks = 1, launch = programmatic, products = warpgroups{}>",
                                queries, keys, stages, stay ? ", grid = resident" : "");
    made.fill = fill;
  }
  void all() {
    for (const char* type : {"bf16", "f16"})
      for (int width : {8, 16, 32, 64, 128, 192, 256})
        add(fmt::format("{}_{}", type, width), {.width = width, .valueWidth = width, .type = type},
            {1, 70, 100});
    add("other_width", {.width = 64, .valueWidth = 128}, {2, 70, 150}, 128, 64, 3);
    add("stores_more_than_tiles", {.width = 8, .valueWidth = 64}, {1, 177, 177}, 192, 64);
    for (auto [queries, keys, stages] :
         {std::tuple(64, 128, 2), {128, 64, 3}, {192, 96, 2}, {128, 80, 4}})
      add(fmt::format("{}_{}_{}", queries, keys, stages),
          {.width = 64, .valueWidth = 64, .attributes = with("causal = #kiln.causal<last>")},
          {1, 300, 330}, queries, keys, stages);
    for (auto [s, t] : {std::pair(1, 1), {1, 400}, {200, 1}, {129, 65}})
      add(fmt::format("rows_{}_{}", s, t), {}, {2, s, t}, 128);
    add("nothing", {}, {2, 0, 5});
    add("no_keys", {}, {2, 70, 0});
    add("shared_heads", {.heads = 6, .keyHeads = 2}, {2, 70, 80});
    add("two_strides",
        {.width = 64, .valueWidth = 64, .queryLayout = "strides = [128, 64, 640, 1]"}, {2, 70, 80});
    const std::string promised = "strides = [-1, -1, -1, 1], multiple = 8";
    add("strides_at_run_time", {.width = 64, .valueWidth = 64, .queryLayout = promised},
        {2, 70, 80});
    add("strides_of_shared_heads",
        {.heads = 6, .keyHeads = 2, .queryLayout = promised, .layoutOfAll = true}, {2, 70, 80});
    add("window", {.attributes = with("window_left = 40, window_right = 5")}, {1, 140, 150});
    add("softcap", {.attributes = with("softcap = 2.0 : f32")}, {2, 50, 40});
    add("evoformer",
        {.heads = 4, .keyHeads = 4, .bias = "1x4x?x?", .biasType = "bf16", .mask = "?x1x1x?"},
        {3, 130, 130}, 64, 64);
    add("closed", {.mask = "?x1x1x?"}, {2, 70, 90}, 64, 32, 2, Fill::closed);
    add("dropout", {.p = 0.1}, {1, 70, 90});
    add("steep", {.attributes = "scale = 1.0 : f32"}, {1, 70, 90}, 64, 32, 2, Fill::steep);
    add("packed",
        {.leading = {}, .sequences = 4, .attributes = with("causal = #kiln.causal<last>")},
        {200, 220});
    cases.back().numbers = {{"qs", {3, 140, 140, 190, 195}}, {"ks", {0, 150, 160, 160, 210}}};
  }
  /// More tiles than blocks, and of causal heads more pairs of them, by one to three warpgroups.
  void rounds() {
    const AttentionText causal{.attributes = "scale = 0.25 : f32, causal = #kiln.causal<last>"};
    const std::string window = "scale = 0.25 : f32, window_left = 20, window_right = 5";
    for (int queries : {64, 128, 192}) {
      const std::string rows = std::to_string(queries);
      add("rounds_of_" + rows, {}, {100, 70, 40}, queries, 32, 3);
      add("rounds_of_causal_" + rows, causal, {80, 2 * queries + 50, 90}, queries, 64);
      add("rounds_of_pairs_" + rows, causal, {200, 2 * queries + 50, 30}, queries, 32);
      add("rounds_without_keys_" + rows, causal, {70, queries + 10, 20}, queries, 32);
      add("rounds_of_window_" + rows, {.attributes = window}, {70, queries + 10, 90}, queries, 32);
    }
    add("rounds_of_shared_heads", {.heads = 6, .keyHeads = 2}, {40, 70, 80}, 192);
    add("rounds_closed", {.mask = "?x1x1x?"}, {80, 70, 90}, 64, 32, 2, Fill::closed);
  }
  /// Causal heads of which some warpgroups see fewer tiles than others, and half of their last.
  void halves() {
    const std::string last = with("causal = #kiln.causal<last>");
    for (int keys : {32, 64, 96, 128})
      add(fmt::format("halves_of_{}", keys),
          {.width = 64, .valueWidth = 64, .type = keys == 64 ? "f16" : "bf16", .attributes = last},
          {2, 333, 333}, 192, keys);
    add("halves_of_wide_rows", {.width = 128, .valueWidth = 128, .attributes = last}, {2, 290, 290},
        128, 128);
    add("halves_first", {.attributes = with("causal = #kiln.causal<first>")}, {2, 290, 250}, 192,
        64);
    add("halves_of_few_keys", {.attributes = last}, {2, 290, 150}, 192, 64);
    add("halves_of_many_keys", {.attributes = last}, {2, 200, 411}, 192, 64);
    add("halves_to_the_right", {.attributes = with("window_right = 9")}, {2, 290, 290}, 192, 64);
    add("halves_of_window", {.attributes = with("causal = #kiln.causal<last>, window_left = 100")},
        {2, 290, 290}, 192, 64);
    add("halves_masked", {.mask = "?x1x1x?", .attributes = last}, {2, 290, 290}, 192, 64);
    add("halves_closed", {.mask = "?x1x1x?", .attributes = last}, {2, 290, 290}, 128, 64, 2,
        Fill::closed);
    add("halves_of_places", {.mask = "1x1x?x?", .attributes = last}, {2, 290, 290}, 128, 64);
    add("halves_biased", {.bias = "1x2x?x?", .attributes = last}, {2, 290, 290}, 128, 64);
    add("halves_dropped", {.p = 0.1, .attributes = last}, {2, 290, 290}, 128, 64);
    add("halves_bent", {.attributes = with("causal = #kiln.causal<last>, softcap = 2.0 : f32")},
        {2, 290, 290}, 128, 64);
  }

 private:
  bool stay;
};

} // namespace

void addAttention(std::vector<Case>& cases) {
  AttentionTable table;
  table.widths();
  table.wide();
  table.small();
  table.rows();
  table.rules();
  table.biases();
  table.hard();
  table.schedules();
  table.backwardsAlone();
  WarpgroupTable warpgroups(/*stay=*/false), resident(/*stay=*/true);
  warpgroups.all();
  resident.all();
  resident.rounds();
  resident.halves();
  for (std::vector<Case>* made : {&table.cases, &warpgroups.cases, &resident.cases})
    std::ranges::move(*made, std::back_inserter(cases));
  for (auto* add : {addHeldBias, addHeldBiasByWarps, addAllGradients, addTurns, addHeads,
                    addThreads, addHidingBiases, addEpilogues})
    add(cases);
}

} // namespace kiln::test
