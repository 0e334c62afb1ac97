// See Table.h.
#include "test/numerics/Builder.h"
#include "test/numerics/LongTexts.h"

#include <ostream>

namespace kiln::test {
namespace {

struct Table : Builder {
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

  /// Column sums of rows so wide that a thread has most of its registers for them, and so wide that
  /// they get a kernel of their own: one of them, or all.
  void wideBackwards() {
    add("LayerNorm", "layer_norm_5x20000_f16", layerNormText(20000, "f16"), {5}, true);
    add("LayerNorm", "layer_norm_3x18432_f32", layerNormText(18432, "f32"), {3}, true);
    add("LayerNorm", "layer_norm_3x22528_bf16", layerNormText(22528, "bf16"), {3}, true);
    add("LayerNorm", "layer_norm_3x16387_f16", layerNormText(16387, "f16"), {3}, true);
    add("LayerNorm", "layer_norm_2x65536_f32", layerNormText(65536, "f32"), {2}, true);
    add("RmsNorm", "rms_norm_5x100003_bf16", rmsNormText(100003, "bf16"), {5}, true);
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
    for (bool backward : {false, true}) {
      add("Broadcast", "called_operations", calledText(40), {15}, backward);
      for (const char* wave : {"sin", "cos"})
        add("Broadcast", fmt::format("forty_of_{}", wave), repeatedText(wave, 40, 40), {7},
            backward);
    }
    for (const char* order : {"oeq", "one", "ogt", "oge", "olt", "ole", "ueq", "une", "ugt", "uge",
                              "ult", "ule", "ord", "uno"})
      for (auto [name, fill] : {std::pair{"", Fill::normal}, {"_nans", Fill::nans}})
        add("Broadcast", fmt::format("comparison_{}{}", order, name), comparisonText(order, 24),
            {9})
            .fill = fill;
    for (auto [name, fill] : {std::pair{"near", Fill::steep},
                              {"far", Fill::large},
                              {"offset", Fill::offset},
                              {"infinities", Fill::infinities}})
      add("Rope", fmt::format("angles_{}", name), anglesText(64), {33}).fill = fill;
  }

  /// Every type of the gradient, with and without the average of parameters.
  void adamw() {
    for (const char* type : {"f32", "bf16", "f16"})
      for (bool ema : {false, true})
        add("Adamw", fmt::format("adamw_{}{}", type, ema ? "_ema" : ""), adamwText(96, type, ema),
            {21});
    add("Adamw", "adamw_1", adamwText(1, "f32", true), {7});
  }

  struct Activation {
    const char *word, *op, *name;
    bool gated;
    const char* options;
  };
  static constexpr Activation kActivations[] = {
      {"Sigmoid", "sigmoid", "sigmoid", false, ""},
      {"Silu", "silu", "silu", false, ""},
      {"Gelu", "gelu", "gelu_erf", false, ""},
      {"Gelu", "gelu", "gelu_tanh", false, "approximate tanh"},
      {"Swiglu", "swiglu", "swiglu", true, ""},
      {"Geglu", "geglu", "geglu_erf", true, ""},
      {"Geglu", "geglu", "geglu_tanh", true, "approximate tanh"}};

  /// Every type in both directions, odd and 1-wide rows, other ranks, and inputs that overflow.
  void activations() {
    for (const Activation& a : kActivations) {
      auto rows = [&](const std::string& what, Width n, const char* type, bool backward,
                      Fill fill = Fill::normal, const char* lead = "?x") {
        add(a.word, fmt::format("{}_{}_{}", a.name, what, type),
            activationText(a.op, n, type, a.gated, a.options, lead), {12}, backward)
            .fill = fill;
      };
      for (bool backward : {false, true}) {
        for (const char* type : {"f32", "bf16", "f16"})
          rows("129", 129, type, backward);
        rows("1", 1, "bf16", backward);
        rows("3d", 40, "f16", backward, Fill::normal, "?x5x");
        rows("steep", 100, "f32", backward, Fill::steep);
        rows("large", 64, "f32", backward, Fill::large);
        rows("large", 64, "f16", backward, Fill::large);
        rows("infinities", 64, "f32", backward, Fill::infinities);
        rows("nans", 64, "bf16", backward, Fill::nans);
      }
      rows("1000", 1000, "bf16", false);
      rows("offset", 64, "f32", false, Fill::offset);
      rows("denormal", 64, "f32", true, Fill::denormal);
    }
  }

  void logSoftmax() {
    auto rows = [&](const std::string& what, Width n, const char* type, bool backward,
                    Fill fill = Fill::normal, const char* to = "f32") {
      add("LogSoftmax", fmt::format("log_softmax_{}_{}_{}", what, type, to),
          logSoftmaxText(n, type, to), {12}, backward)
          .fill = fill;
    };
    for (bool backward : {false, true}) {
      for (const char* type : {"f32", "bf16", "f16"}) {
        rows("129", 129, type, backward, Fill::normal, type);
        rows("1000", 1000, type, backward);
      }
      for (Width n : {1, 3, 31, 4096})
        rows(fmt::format("{}", n), n, "bf16", backward);
      rows("offset", 128, "f32", backward, Fill::offset);
      rows("large", 64, "f16", backward, Fill::large, "f16");
      for (Fill fill : {Fill::infinities, Fill::nans, Fill::minusInf})
        rows(nameOf(fill), 64, "f32", backward, fill);
    }
    rows("10000", 10000, "bf16", false);
    rows("denormal", 64, "f32", false, Fill::denormal);
    rows("steep", 100, "bf16", false, Fill::steep);
  }

  void crossEntropy() {
    auto rows = [&](const std::string& what, std::string text, Width n, bool backward,
                    Fill fill = Fill::normal) {
      Case& made = add("CrossEntropy", "cross_entropy_" + what, std::move(text), {26}, backward);
      made.fill = fill;
      made.classes = n;
    };
    for (bool backward : {false, true}) {
      for (const char* type : {"f32", "bf16", "f16"})
        for (Width n : {1, 3, 129, 1000})
          rows(fmt::format("{}_{}", n, type), crossEntropyText(n, type, n == 3 ? "i32" : "i64"), n,
               backward);
      rows("smoothed", crossEntropyText(100, "f32", "i64", "{label_smoothing = 0.1 : f32}"), 100,
           backward);
      rows("z", crossEntropyText(77, "bf16", "i32", "{z_loss = 0.01 : f32}"), 77, backward);
      rows("all",
           crossEntropyText(64, "f16", "i32",
                            "{ignore_index = 5 : i64, label_smoothing = 0.2 : f32, z_loss = 0.1 "
                            ": f32}",
                            "?x2x"),
           64, backward);
      for (Fill fill : {Fill::infinities, Fill::nans, Fill::minusInf})
        rows(nameOf(fill), crossEntropyText(64, "f32", "i64"), 64, backward, fill);
    }
    rows("10000", crossEntropyText(10000, "bf16", "i64"), 10000, false);
    rows("offset", crossEntropyText(128, "f32", "i64"), 128, false, Fill::offset);
    rows("denormal", crossEntropyText(64, "f32", "i64"), 64, false, Fill::denormal);
    rows("large", crossEntropyText(64, "f16", "i64"), 64, false, Fill::large);
    for (const char* type : {"f32", "bf16"})
      rows(fmt::format("and_gradient_{}", type), lossAndGradientText(320, type), 320, false);
    rows("and_gradient_offset", lossAndGradientText(100, "f32"), 100, false, Fill::offset);
  }

  void indices() {
    for (const char* type : {"f32", "bf16"})
      for (const char* index : {"i32", "i64"})
        for (Width n : {1, 31, 129, 1000})
          add("Index", fmt::format("index_{}_{}_{}", n, type, index), indexText(n, type, index),
              {37});
    for (std::int64_t rows : {1, 37, 1000})
      add("Index", fmt::format("index_rows{}", rows), rowIndexText(), {rows});
    add("Index", "index_resident", indexText(76, "f32", "i32"), {41}).schedule =
        schedule(8, 4, 4, 128, "resident");
    add("Index", "index_warps", indexText(400, "f32", "i64"), {41}).schedule =
        schedule(64, 4, 2, 192);
  }

  void picks() {
    for (const char* type : {"f32", "bf16", "f16"})
      for (const char* index : {"i32", "i64"})
        for (Width n : {1, 31, 128, 1000})
          add("Pick", fmt::format("pick_{}_{}_{}", n, type, index), pickText(n, type, index), {37});
  }

  /// Tiles through a ring: fewer rows than a tile, than all stages, and many; several warps a row.
  void rings() {
    const char* ring =
        "#kiln.schedule<lanes = {}, vector = {}, rows = {}, threads = {}, blocks = 1, "
        "grid = resident, keep = ring, launch = older_first, stages = {}>";
    auto of = [&](int lanes, int vector, int rows, int threads, int stages) {
      return fmt::format(fmt::runtime(ring), lanes, vector, rows, threads, stages);
    };
    for (const char* type : {"f32", "bf16", "f16"})
      for (std::int64_t rows : {1, 37, 1003}) {
        std::string suffix = fmt::format("_{}_rows{}", type, rows);
        add("LayerNorm", "ring_norm" + suffix, layerNormText(128, type), {rows}, true).schedule =
            of(16, 8, 2, 128, 3);
        add("LayerNorm", "ring_singles" + suffix, layerNormText(64, type), {rows}, true).schedule =
            of(32, 2, 1, 96, 2);
        add("RmsNorm", "ring_wide" + suffix, rmsNormText(640, type), {rows}, true).schedule =
            of(96, 4, 1, 192, 4);
      }
  }

  /// Two blocks that share each row: kept in registers and in shared memory, one and several
  /// exchanges, several rows at once, odd rows, values of rows, elements picked from them.
  void clusters() {
    auto of = [&](int lanes, int vector, int rows, const char* keep) {
      return fmt::format("#kiln.schedule<lanes = {}, vector = {}, rows = {}, threads = {}, "
                         "blocks = 1, grid = one_shot, keep = {}, launch = programmatic, "
                         "cluster = 2>",
                         lanes, vector, rows, lanes / 2, keep);
    };
    for (const char* type : {"f32", "bf16", "f16"})
      for (std::int64_t rows : {0, 1, 37}) {
        std::string suffix = fmt::format("_{}_rows{}", type, rows);
        add("Softmax", "cluster_softmax" + suffix, softmaxText(1000, type, false, false), {rows},
            rows == 37)
            .schedule = of(128, 4, 1, "shared");
        add("LayerNorm", "cluster_norm" + suffix, layerNormText(648, type), {rows}).schedule =
            of(64, 8, 2, "registers");
        add("CrossEntropy", "cluster_loss" + suffix, crossEntropyText(1001, type, "i64", ""),
            {rows})
            .schedule = of(192, 4, 1, "shared");
        add("RmsNorm", "cluster_rms_norm" + suffix, rmsNormText(2560, type), {rows}).schedule =
            of(640, 2, 1, "global");
      }
    add("Dropout", "cluster_dropout", dropoutNormText(640, "bf16"), {9}).schedule =
        of(128, 4, 1, "registers");
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
    // Vectors that overlap the ends of rows.
    for (const char* keep : {"registers", "shared", "global"})
      for (const char* grid : {"one_shot", "resident"})
        add("Softmax", fmt::format("softmax_overlap_{}_{}", keep, grid),
            softmaxText(1001, "bf16", false, false), {7})
            .schedule = schedule(32, 8, 1, 64, grid, keep);
    steady();
    add("LayerNorm", "layer_norm_vector16", layerNormText(256, "bf16"), {20}).schedule =
        schedule(8, 16, 2, 64);
    add("LayerNorm", "layer_norm_rows16", layerNormText(16, "bf16"), {300}).schedule =
        schedule(2, 8, 16, 32);
  }

  /// Vectors that overlap the ends of rows, and weights that all rows share: more rows than blocks,
  /// fewer rows, and rows that end within a block.
  void steady() {
    const auto staged = [](int lanes, int vector, int threads, const char* keep) {
      std::string text = schedule(lanes, vector, 1, threads, "resident", keep);
      return text.insert(text.size() - 1, ", columns = shared");
    };
    for (const char* keep : {"registers", "shared"})
      for (int rows : {3, 70}) {
        const std::string name = fmt::format("{}_{}rows", keep, rows);
        add("LayerNorm", "layer_norm_steady_" + name, layerNormText(1001, "bf16"), {rows})
            .schedule = staged(32, 8, 96, keep);
        add("LayerNorm", "layer_norm_steady_" + name, layerNormText(1001, "bf16"), {rows}, true)
            .schedule = staged(64, 8, 128, keep);
        add("LayerNorm", "layer_norm_steady_f32_" + name, layerNormText(514, "f32"), {rows}, true)
            .schedule = staged(160, 4, 160, keep);
        add("LayerNorm", "layer_norm_steady_weights_" + name, layerNormText(77, "bf16", "bf16"),
            {rows})
            .schedule = staged(4, 8, 64, keep);
        add("RmsNorm", "rms_norm_steady_" + name, rmsNormText(333, "f16"), {rows}, true).schedule =
            staged(32, 8, 32, keep);
      }
  }
};

} // namespace

std::ostream& operator<<(std::ostream& out, const Case& numericCase) {
  return out << numericCase.name;
}

std::vector<Case> allCases() {
  Table table;
  table.widths();
  table.wideBackwards();
  table.rowCounts();
  table.operations();
  table.adamw();
  table.activations();
  table.logSoftmax();
  table.crossEntropy();
  table.indices();
  table.randomNumbers();
  table.picks();
  table.rings();
  table.clusters();
  table.schedules();
  addLooseRings(table.cases);
  addShapes(table.cases);
  addAttention(table.cases);
  addHardRows(table.cases);
  return std::move(table.cases);
}

} // namespace kiln::test
