// A function that is one attention, as text, for the numerics table and for drawn functions.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace kiln::test {

/// Sizes of 0 are run-time sizes.
struct AttentionText {
  std::vector<int> leading = {0};
  int heads = 2, keyHeads = 2, queries = 0, keys = 0, width = 32, valueWidth = 32;
  std::string type = "bf16";
  std::string bias = {}, biasType = "f32"; // "1x2x?x?"
  std::string mask = {};
  int sequences = 0;
  double p = 0;
  std::string attributes = "scale = 0.25 : f32";
  std::string queryLayout = {};
  bool layoutOfAll = false; // of keys and values too

  /// What follows the attention: `%o` is its output.
  struct Behind {
    std::vector<std::string> arguments; // "%g: tensor<4xf32>"
    std::string lines;
    std::vector<std::string> names, types; // of results in the output's place
  };
  std::string text(const Behind& behind) const;
  std::string text() const { return text({{}, {}, {"%o"}, {output()}}); }
  /// The output's type.
  std::string output() const { return rows(heads, queries, valueWidth); }
  /// All gradients at once, or all but those of queries, of operands one of which is the output's
  /// gradient, and of a delta and a log-sum-exp of their own. That of a bias, if there is one.
  std::string gradients(bool ofQueries = true) const;

 private:
  struct Operands {
    std::vector<std::string> arguments, types;
    std::string names;
  };
  Operands operands() const;
  std::string rows(int heads, int rows, int width) const;
  std::string shape(std::initializer_list<int> last) const;
};

template <class Change> AttentionText changed(AttentionText text, Change change) {
  change(text);
  return text;
}

/// A schedule whose blocks hold the bias.
struct HeldTiles {
  int queries = 64, keys = 32, stages = 3, groups = 1, side = 1;
  std::string bias = "held";
  std::string products = "warpgroups";
  std::string text() const;
};

} // namespace kiln::test
