// How the parts of the numerics table add their cases.
#pragma once

#include "test/numerics/Table.h"
#include "test/numerics/Texts.h"

#include <fmt/format.h>

namespace kiln::test {

using Sizes = std::vector<std::int64_t>;

inline std::string schedule(int lanes, int vector, int rows, int threads,
                            const char* grid = "one_shot", const char* keep = "registers",
                            int blocks = 1) {
  return fmt::format("#kiln.schedule<lanes = {}, vector = {}, rows = {}, threads = {}, blocks = "
                     "{}, grid = {}, keep = {}, launch = programmatic>",
                     lanes, vector, rows, threads, blocks, grid, keep);
}

inline std::string nameOf(Fill fill) {
  static constexpr const char* names[] = {"normal", "offset",    "constant", "denormal",
                                          "deep",   "steep",     "large",    "infinities",
                                          "nans",   "minus_inf", "closed",   "hiding"};
  return names[static_cast<int>(fill)];
}

/// Collects cases.
struct Builder {
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
};

/// Rows on which arithmetic is hard (HardTable.cpp).
void addHardRows(std::vector<Case>& cases);
/// Rows that begin between the multiples of 16 bytes (LooseRingTable.cpp).
void addLooseRings(std::vector<Case>& cases);
/// Attention and its gradients (AttentionTable.cpp), with all that follow, each in its own table.
void addAttention(std::vector<Case>& cases);
void addHeldBias(std::vector<Case>& cases);
void addHeldBiasByWarps(std::vector<Case>& cases);
void addAllGradients(std::vector<Case>& cases);
void addTurns(std::vector<Case>& cases);
void addHeads(std::vector<Case>& cases);
void addThreads(std::vector<Case>& cases);
void addHidingBiases(std::vector<Case>& cases);
void addEpilogues(std::vector<Case>& cases);
/// Cases of what moves or repeats rows and columns (ShapeTable.cpp).
void addShapes(std::vector<Case>& cases);

} // namespace kiln::test
