// See Table.h.
#include "test/numerics/Table.h"

#include "test/numerics/Texts.h"

#include <fmt/format.h>

#include <ostream>

namespace kiln::test {
namespace {

using Sizes = std::vector<std::int64_t>;

std::string schedule(int lanes, int vector, int rows, int threads, const char* grid = "one_shot",
                     const char* keep = "registers", int blocks = 1) {
  return fmt::format("#kiln.schedule<lanes = {}, vector = {}, rows = {}, threads = {}, blocks = "
                     "{}, grid = {}, keep = {}, launch = programmatic>",
                     lanes, vector, rows, threads, blocks, grid, keep);
}

struct Table {
  std::vector<Case> cases;

  Case& add(const char* op, const std::string& name, std::string text, Sizes sizes,
            bool backward = false) {
    Case made;
    made.name = name;
    made.op = op;
    made.text = std::move(text);
    made.sizes = std::move(sizes);
    made.backward = backward;
    if (backward)
      made.name += "_backward";
    return cases.emplace_back(std::move(made));
  }

  /// Every width, odd ones too; with few rows where they are wide.
  void widths() {
    int i = 0;
    for (Width n : {1, 3, 7, 31, 64, 100, 128, 129, 256, 384, 1000, 1280, 4096, 10000, 16384}) {
      std::int64_t rows = n > 2000 ? 2 : n > 300 ? 5 : 37;
      std::string type = n % 2 ? "f32" : i++ % 3 == 0 ? "f16" : "bf16";
      std::string suffix = fmt::format("_{}x{}_{}", rows, n, type);
      add("LayerNorm", "layer_norm" + suffix, layerNormText(n, type), {rows});
      if (n <= 4096)
        add("LayerNorm", "layer_norm" + suffix, layerNormText(n, type), {rows}, true);
      add("Softmax", "softmax" + suffix, softmaxText(n, type, false, n % 2 == 0), {rows});
      if (n < 2000)
        add("RmsNorm", "rms_norm" + suffix, rmsNormText(n, type), {rows}, n % 2 == 0);
      if (n < 2000 || n == 16384)
        add("Reduce", "reduce" + suffix, reduceText(n, type, n < 2000), {rows});
    }
  }

  /// No row, one, a few, many; in all three types.
  void rowCounts() {
    for (std::int64_t rows : {0, 1, 2, 31, 132, 257})
      for (const char* type : {"f32", "bf16", "f16"}) {
        std::string suffix = fmt::format("_rows{}_{}", rows, type);
        add("LayerNorm", "layer_norm" + suffix, layerNormText(128, type), {rows}, true);
        if (type[0] == 'b')
          add("Softmax", "softmax" + suffix, softmaxText(64, type, true, true, 0.125), {rows},
              rows % 2 == 0);
        if (type == std::string("f32"))
          add("Reduce", "reduce" + suffix, reduceText(64, type, true), {rows});
      }
  }

  void operations() {
    for (const char* type : {"f32", "bf16", "f16"}) {
      std::string suffix = fmt::format("_{}", type);
      for (bool backward : {false, true}) {
        add("Broadcast", "gate" + suffix, gateText(128, type), {33}, backward);
        add("Broadcast", "gelu" + suffix, geluText(96, type), {33}, backward);
        add("Softmax", "chain" + suffix, chainText(72, type), {19}, backward);
        add("Broadcast", "broadcast" + suffix, broadcastText(40, type), {11}, backward);
        add("Softmax", "softmax_all" + suffix, softmaxText(200, type, true, true, 0.3), {23},
            backward);
      }
      add("RmsNorm", "rms_norm_plain" + suffix, rmsNormText(80, type, false), {9}, true);
      add("LayerNorm", "layer_norm_plain" + suffix, layerNormText(48, type, ""), {9}, true);
      add("Kernel", "kernel" + suffix, kernelText(32, type), {21});
    }
    add("LayerNorm", "layer_norm_bf16_affine", layerNormText(64, "bf16", "bf16"), {17}, true);
    add("LayerNorm", "layer_norm_3d", layerNormText(24, "f32", "f32", "?x5x"), {4}, true);
    add("LayerNorm", "layer_norm_two_sizes", layerNormText(24, "bf16", "f32", "?x?x"), {3, 7});
    add("LayerNorm", "layer_norm_static", layerNormText(24, "f32", "f32", "6x"), {});
    add("Reduce", "reduce_backward_f32", reduceText(32, "f32", true), {13}, true);
    add("Reduce", "reduce_backward_bf16", reduceText(32, "bf16", true), {13}, true);
    add("Broadcast", "scalar_operations", scalarText(56), {15});
  }

  /// Random numbers: widths of every alignment, numbers shared along each dimension and along all.
  void randomNumbers() {
    for (Width n : {1, 3, 7, 64, 98, 128, 1000}) {
      std::string type = n % 2 ? "f32" : n % 4 ? "f16" : "bf16";
      std::string suffix = fmt::format("_{}_{}", n, type);
      add("Random", "random" + suffix, randomText(n, type), {9});
      for (auto [name, shared] : {std::pair{"", ""},
                                  {"_rows", "[0]"},
                                  {"_columns", "[1]"},
                                  {"_channels", "[2]"},
                                  {"_all", "[0, 1, 2]"}})
        add("Dropout", std::string("dropout") + name + suffix, dropoutText(n, type, 0.3, shared),
            {7}, n == 64);
      add("Dropout", "dropout_norm" + suffix, dropoutNormText(n, type), {21});
      add("StochasticRound", fmt::format("stochastic_round_{}", n), stochasticRoundText(n), {21},
          n == 64);
    }
    for (const char* type : {"f32", "bf16", "f16"})
      add("Dropout", fmt::format("dropout_norm_96_{}", type), dropoutNormText(96, type), {21},
          true);
    add("Random", "random_sums_24", randomSumsText(24), {37});
    add("Random", "random_sums_5", randomSumsText(5), {3});
    add("Dropout", "dropout_20001_bf16", dropoutText(20001, "bf16", 0.3, "[1]"), {2});
    add("Dropout", "dropout_none_bf16", dropoutText(32, "bf16", 0, ""), {5});
    add("Dropout", "dropout_none_f32", dropoutText(32, "f32", 0, ""), {5}, true);
    add("Dropout", "dropout_everything", dropoutText(32, "f32", 1, ""), {5});
    add("Dropout", "dropout_no_rows", dropoutText(32, "f32", 0.5, ""), {0});
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
    add("LayerNorm", "layer_norm_view",
        layerNormText(64, "bf16", "f32", "?x", "strides = [192, 1]"), {29}, true);
    Case& view = add("LayerNorm", "layer_norm_run_time_view",
                     layerNormText(64, "bf16", "f32", "?x", "strides = [-1, 1], align = 2"), {29});
    view.strides = {{"x", {101, 1}}};
  }

  void hardRows() {
    auto hard = [&](const char* op, const std::string& name, std::string text, Fill fill,
                    bool backward = false) {
      Case& made = add(op, "hard_" + name, std::move(text), {12}, backward);
      made.fill = fill;
    };
    hard("LayerNorm", "layer_norm_offset", layerNormText(128, "f32"), Fill::offset);
    hard("RmsNorm", "rms_norm_offset", rmsNormText(128, "f32"), Fill::offset);
    hard("Softmax", "softmax_offset", softmaxText(128, "f32", false, false), Fill::offset);
    hard("Reduce", "reduce_offset", reduceText(128, "f32", true), Fill::offset);
    hard("LayerNorm", "layer_norm_denormal", layerNormText(64, "f32"), Fill::denormal);
    hard("Softmax", "softmax_denormal", softmaxText(64, "f32", true, false), Fill::denormal);
    hard("LayerNorm", "layer_norm_large", layerNormText(64, "f16"), Fill::large);
    hard("Softmax", "softmax_large", softmaxText(64, "f16", false, true, 0.01), Fill::large);
    hard("Reduce", "reduce_large", reduceText(64, "f16", true), Fill::large);
    for (Fill fill : {Fill::infinities, Fill::nans, Fill::minusInf}) {
      std::string kind = fill == Fill::infinities ? "infinities"
                         : fill == Fill::nans     ? "nans"
                                                  : "minus_inf";
      hard("LayerNorm", "layer_norm_" + kind, layerNormText(64, "f32"), fill);
      hard("Softmax", "softmax_" + kind, softmaxText(64, "f32", false, false), fill);
      hard("Softmax", "masked_softmax_" + kind, softmaxText(64, "bf16", false, true), fill);
      hard("Reduce", "reduce_" + kind, reduceText(64, "f32", true), fill);
      hard("RmsNorm", "rms_norm_" + kind, rmsNormText(64, "bf16"), fill);
    }
    for (Fill fill : {Fill::infinities, Fill::nans}) { // dropped ones are zero, not NaN
      std::string kind = fill == Fill::nans ? "nans" : "infinities";
      hard("Dropout", "dropout_" + kind, dropoutText(64, "f32", 0.5, ""), fill);
      hard("StochasticRound", "stochastic_round_" + kind, stochasticRoundText(64), fill);
    }
    hard("StochasticRound", "stochastic_round_denormal", stochasticRoundText(64), Fill::denormal);
    hard("Softmax", "closed_softmax", softmaxText(64, "f32", true, true), Fill::closed);
    hard("Softmax", "closed_softmax", softmaxText(64, "f32", true, true), Fill::closed, true);
  }

  /// One function under many schedules: lanes within a warp, a warp, many warps; several rows; kept
  /// in registers and in shared memory; one tile a block and many.
  void schedules() {
    struct Knobs {
      int lanes, vector, rows, threads;
      const char *grid, *keep;
    };
    for (const Knobs& k :
         {Knobs{1, 4, 1, 32, "resident", "registers"}, Knobs{2, 4, 2, 64, "one_shot", "shared"},
          Knobs{4, 1, 2, 32, "resident", "registers"}, Knobs{8, 4, 4, 128, "resident", "shared"},
          Knobs{16, 4, 3, 64, "one_shot", "registers"},
          Knobs{32, 1, 2, 96, "resident", "registers"}, Knobs{64, 1, 1, 64, "resident", "shared"},
          Knobs{64, 4, 4, 192, "one_shot", "registers"},
          Knobs{96, 2, 1, 192, "resident", "registers"}}) {
      std::string name =
          fmt::format("lanes{}_vector{}_rows{}_{}_{}", k.lanes, k.vector, k.rows, k.grid, k.keep);
      std::string text = schedule(k.lanes, k.vector, k.rows, k.threads, k.grid, k.keep);
      Width n = k.lanes == 1 ? 32 : k.lanes >= 64 ? 400 : 76;
      add("LayerNorm", "layer_norm_" + name, layerNormText(n, "f32"), {41}).schedule = text;
      add("Softmax", "softmax_" + name, softmaxText(n, "bf16", true, true), {41}).schedule = text;
      if (k.grid == std::string("resident"))
        add("LayerNorm", "layer_norm_" + name, layerNormText(n, "bf16"), {41}, true).schedule =
            text;
      if (k.grid == std::string("resident"))
        add("Reduce", "reduce_" + name, reduceText(n, "f32", true), {41}).schedule = text;
    }
    for (int lanes : {128, 256, 1024}) {
      std::string text =
          schedule(lanes, 2, 1, lanes, "resident", lanes == 256 ? "shared" : "registers");
      add("LayerNorm", fmt::format("layer_norm_lanes{}", lanes), layerNormText(3000, "f32"), {5})
          .schedule = text;
      add("Softmax", fmt::format("softmax_lanes{}", lanes), softmaxText(3000, "bf16", false, true),
          {5})
          .schedule = text;
    }
    add("LayerNorm", "layer_norm_vector16", layerNormText(256, "bf16"), {20}).schedule =
        schedule(8, 16, 2, 64);
    add("LayerNorm", "layer_norm_rows16", layerNormText(16, "bf16"), {300}).schedule =
        schedule(2, 8, 16, 32);
  }
};

} // namespace

std::ostream& operator<<(std::ostream& out, const Case& numericCase) {
  return out << numericCase.name;
}

std::vector<Case> allCases() {
  Table table;
  table.widths();
  table.rowCounts();
  table.operations();
  table.randomNumbers();
  table.layouts();
  table.hardRows();
  table.schedules();
  return std::move(table.cases);
}

} // namespace kiln::test
