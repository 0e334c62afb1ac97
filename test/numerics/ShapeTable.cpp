// See Builder.h: sums over some dimensions, gathers, pairs of columns, transposes, layouts.
#include "test/numerics/Builder.h"

#include <tuple>

namespace kiln::test {
namespace {

struct Shapes : Builder {
  /// Sums over each choice of leading dimensions: many terms and few, many results and few, sizes
  /// known and not, layouts; and gradients of what is shared along a dimension.
  void leadingSums() {
    const std::vector<std::vector<int>> each = {{0},    {1},    {2},    {0, 1},   {0, 2},
                                                {1, 2}, {0, 3}, {1, 3}, {0, 2, 3}};
    const std::vector<std::vector<int>> kept = {{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 3}};
    auto sums = [&](const std::string& name, std::string text, Sizes sizes) {
      add("Reduce", "leading_sums_" + name, std::move(text), std::move(sizes));
    };
    for (Width n : {1, 7, 64, 129})
      for (const char* type : {"f32", "bf16", "f16"})
        sums(fmt::format("{}_{}", n, type), leadingSumsText(n, type, {"?", "6", "5"}, each), {9});
    sums("sizes_given_f32", leadingSumsText(24, "f32", {"?", "?", "?"}, kept), {3, 40, 2});
    sums("sizes_given_bf16", leadingSumsText(32, "bf16", {"?", "?", "?"}, kept, "bf16"),
         {33, 2, 5});
    sums("rows_given", leadingSumsText(40, "f16", {"3", "?"}, {{0}, {1}}, "f16"), {70});
    sums("long", leadingSumsText(20, "f32", {"3", "3000"}, {{1}}), {});
    sums("long_bf16", leadingSumsText(520, "bf16", {"2", "700"}, {{1}}, "bf16"), {});
    sums("long_1", leadingSumsText(1, "f32", {"3", "3000"}, {{1}}), {});
    sums("long_many", leadingSumsText(8, "bf16", {"?", "1500"}, {{1}}), {5});
    sums("wide", leadingSumsText(129, "bf16", {"40", "300"}, {{0}, {1}}), {});
    sums("no_rows", leadingSumsText(8, "f32", {"?", "4"}, {{0}, {1}}), {0});
    sums("no_terms", leadingSumsText(8, "f32", {"4", "?"}, {{0}, {1}}), {0});
    sums("padded",
         leadingSumsText(8, "f32", {"4", "6"}, {{0}, {1}}, "f32", "strides = [96, 16, 1]"), {});
    sums("transposed",
         leadingSumsText(8, "bf16", {"?", "6"}, {{0}, {1}}, "f32", "strides = [48, 1, 6]"), {5});
    sums("repeated",
         leadingSumsText(8, "f32", {"?", "6"}, {{0}, {1}}, "f32", "strides = [8, 0, 1]"), {5});
    Case& given = add("Reduce", "leading_sums_run_time_strides",
                      leadingSumsText(8, "f32", {"4", "6"}, {{0}, {1}}, "f32",
                                      "strides = [-1, -1, 1], align = 4"),
                      {});
    given.strides = {{"in0", {70, 11, 1}}};
    for (Fill fill : {Fill::infinities, Fill::nans, Fill::offset})
      add("Reduce", "leading_sums_" + (fill == Fill::offset ? "offset" : nameOf(fill)),
          leadingSumsText(16, "f32", {"12", "50"}, {{0}, {1}}), {})
          .fill = fill;
    for (const char* type : {"bf16", "f16"}) // a gradient that is the same along each row
      add("Reduce", fmt::format("row_means_backward_{}", type), rowMeansText(40, type), {9}, true);
    for (Width n : {5, 64, 200})
      for (const char* type : {"bf16", "f16"})
        add("Broadcast", fmt::format("shared_bias_{}_{}", n, type),
            sharedBiasText(n, type, n == 5 ? "f16" : "bf16"), {19}, true);
  }

  /// Tables of every type and width, indices in and out of them, padding in and out of them; their
  /// gradients. Many segments with few rows, few with many, numbers of them that are given.
  void gathers() {
    auto gather = [&](const std::string& name, std::string text, Sizes sizes, std::int64_t rows,
                      bool backward = false) -> Case& {
      Case& made = add("Gather", "gather_" + name, std::move(text), std::move(sizes), backward);
      made.classes = rows;
      return made;
    };
    for (bool backward : {false, true}) {
      for (const char* type : {"f32", "bf16", "f16"})
        for (Width n : {1, 7, 64, 129, 1280})
          gather(fmt::format("{}_{}", n, type),
                 gatherText(n, type, "50", "?", n % 2 ? "i32" : "i64", n > 50), {n > 1000 ? 9 : 41},
                 50, backward);
      gather("3d", gatherText(24, "bf16", "30", "?x5", "i32", false), {6}, 30, backward);
      gather("table_given", gatherText(24, "f32", "?", "?", "i32", true), {20, 33}, 20, backward);
      gather("padding",
             gatherText(40, "bf16", "30", "?", "i64", false, "{padding_index = 3 : i64}"), {90}, 30,
             backward);
      gather("padding_outside",
             gatherText(40, "f32", "30", "?", "i32", true, "{padding_index = -100 : i64}"), {90},
             30, backward);
      gather("no_rows", gatherText(8, "f32", "30", "?", "i32", false), {0}, 30, backward);
    }
    gather("row", gatherText(64, "bf16", "30", "1", "i32", true), {}, 30);
    for (const char* keep : {"shared", "global"})
      gather(std::string("kept_") + keep, gatherText(72, "bf16", "30", "?", "i32", true), {40}, 30)
          .schedule = schedule(8, 4, 2, 64, "resident", keep);
  }
  void segmentSums() {
    auto sums = [&](const std::string& name, std::string text, Sizes sizes, std::int64_t segments) {
      add("SegmentSum", "segment_sum_" + name, std::move(text), std::move(sizes)).classes =
          segments;
    };
    for (const char* type : {"f32", "bf16", "f16"})
      for (Width n : {1, 7, 64, 129})
        sums(fmt::format("{}_{}", n, type),
             segmentSumText(n, type, "20", "?", n % 2 ? "i64" : "i32", n == 64 ? type : "f32"),
             {200}, 20);
    sums("many", segmentSumText(96, "bf16", "700", "?", "i32", "bf16"), {300}, 700);
    sums("many_of_one", segmentSumText(40, "f32", "1000", "?", "i32", "f32"), {300}, 1);
    sums("few", segmentSumText(32, "f32", "3", "2000", "i32", "f32"), {}, 3);
    sums("given", segmentSumText(64, "bf16", "?", "?", "i64", "bf16"), {400, 30}, 30);
    sums("given_few", segmentSumText(24, "f32", "?", "?", "i32", "f32"), {500, 2}, 2);
    sums("3d", segmentSumText(20, "f16", "40", "?x7", "i32", "f16"), {30}, 40);
    sums("padding", segmentSumText(20, "f32", "40", "?", "i32", "f32", "{padding_index = 1 : i64}"),
         {99}, 40);
    sums("no_rows", segmentSumText(20, "f32", "40", "?", "i32", "f32"), {0}, 40);
    add("SegmentSum", "segment_sum_f32", segmentSumText(20, "f32", "40", "?", "i32", "f32"), {50},
        true)
        .classes = 40;
    add("SegmentSum", "segment_sum_padding",
        segmentSumText(20, "bf16", "40", "?", "i32", "f32", "{padding_index = 1 : i64}"), {50},
        true)
        .classes = 40;
  }

  /// Rows that are neighbours in memory: stored so and loaded so, any width and number of rows.
  void channelFirst() {
    for (const char* type : {"f32", "bf16", "f16"})
      for (Width n : {1, 3, 31, 64, 128, 200, 513, 1280})
        for (bool backward : {false, true}) {
          std::string suffix = fmt::format("_{}_{}", n, type);
          add("Transpose", "channel_first" + suffix, channelFirstText(n, type), {7, 9}, backward);
          if (n <= 128)
            add("Transpose", "channel_last" + suffix, channelLastText(n, type), {5, 27}, backward);
        }
    for (Sizes sizes : {Sizes{0, 4}, {1, 1}, {2, 131}})
      for (bool backward : {false, true})
        add("Transpose", fmt::format("channel_first_rows{}", sizes[0] * sizes[1]),
            channelFirstText(64, "bf16"), sizes, backward);
    add("Transpose", "channel_first_ring", channelFirstText(64, "bf16"), {7, 90}).schedule =
        "#kiln.schedule<lanes = 8, vector = 8, rows = 2, threads = 64, blocks = 1, grid = "
        "resident, keep = ring, launch = programmatic, stages = 3>";
    int i = 0;
    for (auto [from, to, permutation] : {std::tuple{"33x70", "70x33", "1, 0"},
                                         {"5x33x70", "5x70x33", "0, 2, 1"},
                                         {"5x33x70", "33x70x5", "1, 2, 0"},
                                         {"5x33x70", "70x33x5", "2, 1, 0"},
                                         {"3x5x7x9", "9x7x5x3", "3, 2, 1, 0"},
                                         {"?x4x8", "8x?x4", "2, 0, 1"},
                                         {"8x?x4", "?x4x8", "1, 2, 0"},
                                         {"8x4x?", "4x?x8", "1, 2, 0"}})
      for (const char* type : {"f32", "bf16", "i64"})
        add("Transpose", fmt::format("moved_{}_{}", ++i, type),
            movedText(from, to, permutation, type), {37});
    add("Transpose", "channel_first_static", channelFirstText(48, "f32", "6x7x"), {});
    for (const char* grid : {"one_shot", "resident"})
      for (const char* keep : {"registers", "shared", "global"}) {
        auto with = [&](const char* name, Width n, const std::string& how) {
          std::string suffix = fmt::format("_{}_{}_{}", name, grid, keep);
          add("Transpose", "channel_first" + suffix, channelFirstText(n, "bf16"), {7, 9}).schedule =
              how;
          if (grid[0] == 'r')
            add("Transpose", "channel_first" + suffix, channelFirstText(n, "bf16"), {7, 9}, true)
                .schedule = how;
        };
        with("tile", 64, schedule(8, 8, 2, 64, grid, keep));
        with("odd_tile", 48, schedule(4, 2, 3, 96, grid, keep));
        with("wide_vector", 64, schedule(4, 16, 1, 64, grid, keep));
        with("warps", 512, schedule(64, 2, 8, 128, grid, keep));
        with("elements", 5000, schedule(128, 4, 1, 128, grid, keep));
      }
  }

  /// What shall be one kernel in one direction and the other, and transposes of rows.
  void fusions() {
    for (const char* type : {"f32", "bf16", "f16"})
      for (bool backward : {false, true}) {
        std::string suffix = fmt::format("_{}", type);
        add("LayerNorm", "several_norms" + suffix, severalNormsText(96, type), {19}, backward);
        add("LayerNorm", "sum_norm" + suffix, sumNormText(72, type), {19}, backward);
        add("RmsNorm", "residual_norm" + suffix, residualNormText(80, type), {19}, backward);
        add("Dropout", "dropout_rows_residual" + suffix, dropoutResidualText(40, type, "[0]"), {9},
            backward);
        add("Dropout", "dropout_columns_residual" + suffix, dropoutResidualText(40, type, "[1]"),
            {9}, backward);
        add("Transpose", "norm_transpose" + suffix, normTransposeText(64, type), {7, 12}, backward);
        add("Transpose", "transpose_outer" + suffix,
            transposeText(24, type, "1, 0, 2, 3", "3x?x5x"), {11}, backward);
        add("Transpose", "transpose_cycle" + suffix,
            transposeText(31, type, "1, 2, 0, 3", "3x5x?x"), {11}, backward);
      }
    channelFirst();
    add("Transpose", "transpose_none", transposeText(8, "f32", "1, 0, 2, 3", "3x?x5x"), {0});
  }

  /// Pairs of columns: whole vectors, vectors in parts, a part of the row; every keep and grid.
  void pairs() {
    for (const char* kind : {"half_split", "interleaved"}) {
      for (auto [n, width] : {std::pair{2, 2}, {6, 6}, {31, 10}, {64, 64}, {128, 96}, {100, 84}})
        for (const char* type : {"f32", "bf16"})
          add("Partner", fmt::format("partner_{}_{}of{}_{}", kind, width, n, type),
              partnerText(n, type, fmt::format("{}, {}", kind, width)), {17}, n > 30);
      int i = 0;
      for (const char* keep : {"registers", "shared", "global"})
        for (const char* grid : {"one_shot", "resident"})
          add("Partner", fmt::format("partner_{}_{}_{}", kind, keep, grid),
              partnerText(128, "bf16", fmt::format("{}, {}", kind, ++i % 2 ? 128 : 48)), {41})
              .schedule = schedule(8, 8, 2, 64, grid, keep);
    }
  }

  /// Positions from -1000 to 1000 that belong to sequences or to batches.
  void rope() {
    for (const char* kind : {"half_split", "interleaved"})
      for (bool backward : {false, true}) {
        for (auto [n, type] : {std::pair{2, "f16"}, {10, "f32"}, {64, "bf16"}, {128, "f32"}})
          add("Rope", fmt::format("rope_{}_{}_{}", kind, n, type),
              ropeText(n, type, n == 64 ? "i64" : "i32", kind), {3, 7}, backward);
        add("Rope", fmt::format("rope_{}_part", kind),
            ropeText(80, "bf16", "i32", fmt::format("{} base 5.0e5 width 32 inverse", kind), true),
            {3, 5}, backward);
        for (const char* type : {"f32", "bf16"})
          add("Rope", fmt::format("norm_rope_{}_{}", kind, type), normRopeText(64, type, kind), {9},
              backward);
      }
    add("Rope", "rope_wide_base", ropeText(256, "f32", "i32", "half_split base 1.0e30"), {2, 33});
    add("Rope", "rope_base_1", ropeText(32, "f32", "i32", "half_split base 1.0"), {2, 33});
    add("Rope", "rope_wide", ropeText(4096, "bf16", "i32", "half_split"), {1, 2});
    add("Rope", "rope_none", ropeText(64, "bf16", "i32", "half_split"), {2, 0});
  }

  void layouts() {
    struct Layout {
      const char *name, *x, *z, *w;
    };
    for (const Layout& l : {Layout{"padded", "strides = [256, 64, 1]", "", ""},
                            Layout{"repeated", "", "strides = [0, 32, 1]", "strides = [0, 0, 1]"},
                            Layout{"row_values", "", "strides = [4, 1, 0]", ""},
                            Layout{"unaligned", "strides = [128, 32, 1], align = 4", "", ""},
                            Layout{"odd_rows", "strides = [140, 35, 1]", "", ""},
                            Layout{"columns", "strides = [256, 64, 2]", "", ""},
                            Layout{"transposed", "", "strides = [128, 1, 4]", ""}})
      for (const char* type : {"f32", "bf16"})
        add("Broadcast", fmt::format("strided_{}_{}", l.name, type),
            stridedText(32, type, l.x, l.z, l.w), {6});
    Case& given =
        add("Broadcast", "strided_run_time",
            stridedText(32, "f32", "strides = [-1, 32, 1]", "", "strides = [-1, -1, 1]"), {6});
    given.strides = {{"x", {500, 32, 1}}, {"w", {7, 39, 1}}};
    Case& columns = add("Broadcast", "strided_run_time_columns",
                        stridedText(32, "bf16", "strides = [-1, -1, -1], align = 2", "", ""), {6});
    columns.strides = {{"x", {402, 100, 3}}};
    add("LayerNorm", "layer_norm_view",
        layerNormText(64, "bf16", "f32", "?x", "strides = [192, 1]"), {29}, true);
    Case& view = add("LayerNorm", "layer_norm_run_time_view",
                     layerNormText(64, "bf16", "f32", "?x", "strides = [-1, 1], align = 2"), {29});
    view.strides = {{"x", {101, 1}}};
  }
};

} // namespace

void addShapes(std::vector<Case>& cases) {
  Shapes shapes;
  shapes.leadingSums();
  shapes.gathers();
  shapes.segmentSums();
  shapes.fusions();
  shapes.pairs();
  shapes.rope();
  shapes.layouts();
  std::move(shapes.cases.begin(), shapes.cases.end(), std::back_inserter(cases));
}

} // namespace kiln::test
