// What kiln::fuse has traced: expressions as a graph, and the table of operations, which says of
// each how it is written in MLIR and how ATen computes it.
#pragma once

#include "kiln/fuse.h"

#include <span>

namespace kiln::fusion {

class Writer;
struct Value;

struct Op {
  const char* name;
  /// Writes the operation; operands may be of any shape and element.
  Value (*write)(Writer& writer, const Node& node, std::span<const Value> operands);
  /// Computes it; floating-point operands are fp32 or fp64.
  at::Tensor (*eager)(const Node& node, std::span<const at::Tensor> operands);
  enum class Kind { elementwise, comparison, alongRows } kind = Kind::elementwise;
};

struct Node {
  const Op* op; // null: an operand of the function
  std::vector<std::shared_ptr<const Node>> operands;
  std::array<double, 3> numbers{}; // what else the operation is given
  unsigned index = 0;              // of the operand
};

/// A traced function, each node once and after what it reads.
struct Graph {
  Graph(unsigned operands, FusedFunction::Trace trace, const void* function);

  struct Step {
    std::shared_ptr<const Node> node;
    std::vector<unsigned> operands; // steps
    std::uint32_t depends = 0;      // operands of the function that a gradient can reach, as bits
  };
  unsigned operands;
  std::vector<Step> steps; // the operands first
  std::vector<unsigned> results;
  unsigned dropouts = 0;
  bool isElementwise = true; // no operation works along rows
  /// A thread that writes elements has read all that they come from: elementwise, or of pairs of
  /// neighbours.
  bool staysInPlace = true;

  /// What a to() says of a result.
  std::optional<at::ScalarType> fixedType(unsigned result) const;
};

bool isDropout(const Node& node);
bool isCast(const Node& node);
bool isColumnSums(const Node& node);
bool isComparison(const Node& node);
bool isOfNeighbours(const Node& node); // pairs of columns, 2i and 2i + 1

/// Computes all by ATen; the results have the dtypes asked for and at least `rank` dimensions.
std::vector<at::Tensor> computeEagerly(const Graph& graph,
                                       std::span<const at::Tensor* const> operands,
                                       std::span<const at::ScalarType> dtypes, std::int64_t rank);

} // namespace kiln::fusion
