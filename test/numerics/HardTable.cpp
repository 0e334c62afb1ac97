// Hard rows: far from zero, without variance, denormal, infinite, NaN, wholly masked, overflowing.
// What is right is what fp64 gives under the rules of ATen: a NaN anywhere in what is reduced
// spreads, denormals stay, what is too large for a type becomes infinite when it is stored. Rows
// marked exact allow fp32 rounding of the computation and nothing for the condition of the problem.
#include "test/numerics/Builder.h"

namespace kiln::test {
namespace {

constexpr const char* kTypes[] = {"f32", "bf16", "f16"};

struct HardTable : Builder {
  Case& hard(const char* op, const std::string& name, std::string text, Fill fill,
             bool backward = false) {
    Case& made =
        add(op, fmt::format("hard_{}_{}", name, nameOf(fill)), std::move(text), {12}, backward);
    made.fill = fill;
    return made;
  }
  Case& exact(const char* op, const std::string& name, std::string text, Fill fill,
              bool backward = false) {
    Case& made = hard(op, "exact_" + name, std::move(text), fill, backward);
    made.strict = Strict::rows;
    return made;
  }
  /// Forward and backward as a training step runs them.
  Case& chained(const char* op, const std::string& name, std::string text, Fill fill) {
    Case& made = hard(op, "chained_" + name, std::move(text), fill, true);
    made.chained = true;
    return made;
  }

  /// 10000 + noise, equal elements.
  void farFromZero() {
    for (const char* type : kTypes)
      for (Fill fill : {Fill::offset, Fill::constant}) {
        auto name = [&](const char* op) { return fmt::format("{}_{}", op, type); };
        exact("LayerNorm", name("layer_norm"), layerNormText(128, type), fill);
        exact("LayerNorm", name("layer_norm_plain"), layerNormText(100, type, ""), fill);
        exact("RmsNorm", name("rms_norm"), rmsNormText(128, type), fill);
        exact("Softmax", name("softmax"), softmaxText(128, type, false, false), fill);
        exact("LogSoftmax", name("log_softmax"), logSoftmaxText(129, type, type), fill);
        exact("Reduce", name("reduce"), reduceText(128, type, true), fill);
        Case& loss =
            exact("CrossEntropy", name("cross_entropy"), crossEntropyText(1000, type, "i64"), fill);
        loss.classes = 1000;
        chained("LayerNorm", name("layer_norm"), layerNormText(100, type), fill);
        chained("RmsNorm", name("rms_norm"), rmsNormText(100, type), fill);
        if (type == kTypes[0]) // a narrower result is what the backward reads
          chained("Softmax", name("softmax"), softmaxText(100, type, false, false), fill).strict =
              Strict::rows;
        chained("LogSoftmax", name("log_softmax"), logSoftmaxText(100, type, "f32"), fill).strict =
            Strict::rows;
        for (auto [kind, options] : {std::pair{"", ""},
                                     {"_smoothed", "{label_smoothing = 0.1 : f32}"},
                                     {"_i32", "{ignore_index = 5 : i64}"}}) {
          Case& both =
              chained("CrossEntropy", name("cross_entropy") + kind,
                      crossEntropyText(129, type, *options == '{' && kind[1] == 'i' ? "i32" : "i64",
                                       options),
                      fill);
          both.classes = 129;
          both.strict = Strict::rows;
        }
      }
  }

  /// Denormal inputs, and results that are.
  void denormals() {
    struct Activation {
      const char *word, *op;
      bool gated;
    };
    for (const char* type : {"f32", "bf16"}) {
      auto name = [&](const char* op) { return fmt::format("{}_{}", op, type); };
      for (const Activation& a :
           {Activation{"Sigmoid", "sigmoid", false}, Activation{"Silu", "silu", false},
            Activation{"Gelu", "gelu", false}, Activation{"Swiglu", "swiglu", true},
            Activation{"Geglu", "geglu", true}})
        for (bool backward : {false, true})
          exact(a.word, name(a.op), activationText(a.op, 64, type, a.gated), Fill::denormal,
                backward);
      exact("LayerNorm", name("layer_norm"), layerNormText(64, type, ""), Fill::denormal);
      exact("RmsNorm", name("rms_norm"), rmsNormText(64, type), Fill::denormal);
      exact("Reduce", name("reduce"), reduceText(64, type, true), Fill::denormal);
      exact("Dropout", name("dropout"), dropoutText(64, type, 0.3, ""), Fill::denormal);
      exact("Rope", name("rope"), ropeText(64, type, "i32", "interleaved"), Fill::denormal);
      exact("Transpose", name("transpose"), transposeText(64, type, "1, 0, 2, 3", "3x?x5x"),
            Fill::denormal);
      for (bool mask : {false, true})
        exact("Softmax", name(mask ? "masked_softmax" : "softmax"),
              softmaxText(256, type, false, mask), Fill::deep)
            .strict = Strict::elements;
      Case& loss = chained("CrossEntropy", name("cross_entropy"),
                           crossEntropyText(256, type, "i64"), Fill::deep);
      loss.classes = 256;
      // In fp32 the exponential of -75 has an error 75 times that of its argument.
      loss.strict = type == kTypes[0] ? Strict::rows : Strict::elements;
    }
    hard("StochasticRound", "stochastic_round", stochasticRoundText(64), Fill::denormal);
  }

  /// What is beyond the largest number of the type is infinite once it is stored.
  void overflow() {
    hard("LayerNorm", "layer_norm_f16", layerNormText(64, "f16"), Fill::large);
    hard("RmsNorm", "rms_norm_f16", rmsNormText(64, "f16"), Fill::large);
    hard("Softmax", "softmax_f16", softmaxText(64, "f16", false, true, 0.01), Fill::large);
    hard("LogSoftmax", "log_softmax_f16", logSoftmaxText(64, "f16", "f16"), Fill::large);
    hard("Reduce", "reduce_f16", reduceText(64, "f16", true), Fill::large);
    hard("Dropout", "dropout_f16", dropoutText(64, "f16", 0.7, ""), Fill::large);
    hard("Broadcast", "strided_f16", stridedText(64, "f16", "", "", ""), Fill::large);
  }

  void infinitiesAndNaNs() {
    for (Fill fill : {Fill::infinities, Fill::nans, Fill::minusInf}) {
      for (const char* type : kTypes) {
        auto name = [&](const char* op) { return fmt::format("{}_{}", op, type); };
        hard("LayerNorm", name("layer_norm"), layerNormText(64, type), fill);
        hard("Softmax", name("softmax"), softmaxText(64, type, false, false), fill);
        hard("Softmax", name("masked_softmax"), softmaxText(64, type, false, true), fill);
        hard("Reduce", name("reduce"), reduceText(64, type, true), fill);
        hard("RmsNorm", name("rms_norm"), rmsNormText(64, type), fill);
        chained("LayerNorm", name("layer_norm"), layerNormText(64, type), fill);
        chained("Softmax", name("masked_softmax"), softmaxText(64, type, true, true), fill);
        chained("LogSoftmax", name("log_softmax"), logSoftmaxText(64, type, "f32"), fill);
        chained("CrossEntropy", name("cross_entropy"), crossEntropyText(64, type, "i64"), fill)
            .classes = 64;
        chained("Reduce", name("reduce"), reduceText(64, type, true), fill);
      }
      hard("Rope", "rope", ropeText(64, "f32", "i32", "half_split"), fill);
      if (fill == Fill::minusInf)
        continue; // dropped ones are zero, not NaN
      hard("Dropout", "dropout", dropoutText(64, "f32", 0.5, ""), fill);
      hard("StochasticRound", "stochastic_round", stochasticRoundText(64), fill);
    }
  }

  /// A loss whose sum of exponentials is taken while the row arrives: kept in shared memory,
  /// several chunks a thread, and vectors that overlap the ends of rows.
  void online() {
    for (const char* type : kTypes)
      for (Fill fill : {Fill::normal, Fill::offset, Fill::infinities, Fill::nans, Fill::minusInf})
        for (int n : {520, 521}) {
          Case& loss = hard("CrossEntropy", fmt::format("online_cross_entropy_{}_{}", n, type),
                            crossEntropyText(n, type, "i64"), fill);
          loss.classes = n;
          loss.schedule = n == 520 ? schedule(32, 4, 2, 64, "resident", "shared")
                                   : schedule(32, 4, 1, 64, "one_shot", "shared");
        }
  }

  /// A row without an open place gives zeros, and its gradient is zero.
  void closedRows() {
    for (const char* type : kTypes) {
      std::string name = fmt::format("softmax_{}", type);
      for (bool bias : {false, true})
        hard("Softmax", name + (bias ? "_bias" : ""), softmaxText(64, type, bias, true),
             Fill::closed);
      hard("Softmax", name, softmaxText(64, type, true, true), Fill::closed, true);
      chained("Softmax", name, softmaxText(64, type, true, true), Fill::closed);
    }
  }
};

} // namespace

void addHardRows(std::vector<Case>& cases) {
  HardTable table;
  table.farFromZero();
  table.denormals();
  table.overflow();
  table.infinitiesAndNaNs();
  table.online();
  table.closedRows();
  std::ranges::move(table.cases, std::back_inserter(cases));
}

} // namespace kiln::test
