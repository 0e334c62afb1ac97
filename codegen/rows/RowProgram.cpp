// See RowProgram.h.
#include "codegen/rows/RowProgram.h"

#include "dialect/Scalar.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/MapVector.h"

#include <map>

using namespace mlir;
using namespace kiln::ir;

namespace kiln::rows {
namespace {

std::string sizeText(int64_t size) {
  return ShapedType::isDynamic(size) ? "?" : std::to_string(size);
}
/// The same but for the order of the leading dimensions.
bool isAlike(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  return a.size() == b.size() && (a.empty() || a.back() == b.back()) &&
         std::is_permutation(a.begin(), a.end(), b.begin());
}
bool isOverEverything(ReduceOp reduce) {
  return static_cast<int64_t>(reduce.getDims().size()) == tensorType(reduce.getInput()).getRank();
}

class Analysis {
 public:
  Analysis(Block& block, Refusal& refusal) : block(block), refusal(refusal) {}

  std::unique_ptr<RowProgram> run() {
    program = std::make_unique<RowProgram>();
    if (!findSpace())
      return nullptr;
    for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands()))
      if (!addOutput(i, value))
        return nullptr;
    if (!hasOneOrder() || !fitsRunningSums())
      return nullptr;
    for (auto& node : program->nodes)
      if (node->kind == Node::Kind::rowReduce)
        program->levels = std::max(program->levels, node->level + 1);
    return std::move(program);
  }

 private:
  bool refuse(Operation* where, const std::string& reason) {
    refusal = {reason, where};
    return false;
  }

  /// The largest shape among results and what is reduced.
  bool findSpace() {
    SmallVector<std::pair<Value, Operation*>> candidates;
    Operation* end = block.getTerminator();
    for (Value value : end->getOperands()) {
      Operation* op = value.getDefiningOp() ? value.getDefiningOp() : end;
      candidates.push_back({untransposed(value).first, op});
    }
    for (ReduceOp reduce : block.getOps<ReduceOp>())
      candidates.push_back({reduce.getInput(), reduce});
    for (PickOp pick : block.getOps<PickOp>())
      candidates.push_back({pick.getInput(), pick});
    Operation* from = end;
    for (auto [value, op] : candidates)
      if (auto shape = tensorType(value).getShape(); shape.size() > program->space.size()) {
        program->space = SmallVector<int64_t>(shape);
        from = op;
      }
    for (auto [value, op] : candidates)
      if (auto shape = tensorType(value).getShape();
          shape.size() == program->space.size() && !isAlike(shape, program->space))
        return refuse(op, "two iteration spaces in one kernel: " + shapeText(program->space) +
                              " and " + shapeText(shape));
    bool hasRows = llvm::any_of(block.getOps<ReduceOp>(), [&](ReduceOp reduce) {
      return tensorType(reduce.getInput()).getShape().size() == program->space.size() &&
             !isOverEverything(reduce);
    });
    if (program->space.empty() ||
        (!hasRows && (ShapedType::isDynamic(program->width()) || program->width() > kMaxWidth)))
      program->space.push_back(1); // values of rows alone, or of one: rows of one column
    int64_t width = program->width();
    if (ShapedType::isDynamic(width))
      return refuse(from, "the last dimension of " + shapeText(program->space) +
                              " is dynamic; kernels are specialised for the row width");
    if (width > kMaxWidth)
      return refuse(from, "rows of " + std::to_string(width) +
                              " elements; the row family reduces up to " +
                              std::to_string(kMaxWidth));
    return true;
  }

  /// Sizes that are known at run time only must not have to agree because a tensor is walked in two
  /// orders.
  bool hasOneOrder() {
    if (block.getOps<TransposeOp>().empty())
      return true;
    std::map<std::pair<const void*, size_t>, int> places; // of run-time dimensions of values
    for (auto& node : program->nodes)
      for (auto [d, to] : llvm::enumerate(node->map)) {
        if (to < 0 || !tensorType(node->value).isDynamicDim(d))
          continue;
        auto found = places.try_emplace({node->value.getAsOpaquePointer(), d}, to).first;
        if (found->second != to)
          return refuse(node->op() ? node->op() : block.getTerminator(),
                        "a tensor with run-time sizes is walked in two orders");
      }
    return true;
  }

  bool fitsRunningSums() {
    const int64_t most = runningSums(program->width());
    int64_t sums = 0;
    for (const Output& output : program->outputs) {
      sums += output.kind == Output::Kind::columnSum ? program->width() : 0;
      if (sums > most)
        return refuse(block.getTerminator()->getOperand(output.index).getDefiningOp(),
                      "running sums of " + std::to_string(sums) +
                          " columns; a kernel has registers for " + std::to_string(most));
    }
    return true;
  }

  SmallVector<int> identity(size_t rank) {
    SmallVector<int> map;
    for (size_t d = 0; d < rank; ++d)
      map.push_back(d);
    return map;
  }

  /// Whether what a kernel computes can be stored in this order in vectors of columns, or in runs
  /// of rows. If not it may load in runs.
  static bool storesRuns(TransposeOp op) {
    auto rank = static_cast<int64_t>(op.getPermutation().size());
    return rank < 2 || op.getPermutation().back() >= rank - 2;
  }

  /// What a result is the transpose of, and the map of the result's dimensions to those of that;
  /// the result itself where that is the better order to compute in, unless `always`.
  std::pair<Value, SmallVector<int>> untransposed(Value value, bool always = false) {
    if (auto transpose = value.getDefiningOp<TransposeOp>();
        transpose && (always || storesRuns(transpose)))
      return {transpose.getInput(), llvm::to_vector_of<int>(transpose.getPermutation())};
    return {value, identity(tensorType(value).getRank())};
  }

  /// What a reduction over the rows sums up; nothing for other reductions and for null.
  std::optional<Output::Kind> sumOverRows(ReduceOp reduce) {
    if (!reduce)
      return std::nullopt;
    ArrayRef<int64_t> shape = tensorType(reduce.getInput()).getShape(), space = program->space;
    if (shape == space && reduce.isOverLeading())
      return Output::Kind::columnSum;
    if (shape == space && reduce.isOverAll())
      return Output::Kind::totalSum;
    if (shape == space.drop_back() && isOverEverything(reduce))
      return Output::Kind::rowSum;
    return std::nullopt;
  }

  bool addOutput(unsigned index, Value value) {
    Operation* at = value.getDefiningOp() ? value.getDefiningOp() : block.getTerminator();
    Value source = value; // a sum over columns may be rounded, or copied, on its way out
    while (auto* op = source.getDefiningOp())
      if (isa<arith::TruncFOp, arith::ExtFOp, TransposeOp>(op))
        source = op->getOperand(0);
      else
        break;
    auto reduce = source.getDefiningOp<ReduceOp>();
    ArrayRef<int64_t> space = program->space;
    auto [stored, map] = untransposed(value);
    if (ArrayRef<int64_t> own = tensorType(stored).getShape();
        own != space && own != space.drop_back())
      std::tie(stored, map) = untransposed(value, true);
    ArrayRef<int64_t> shape = tensorType(stored).getShape();
    Output output{Output::Kind::full, nullptr, map, index, at->getLoc()};
    if (auto kind = sumOverRows(reduce)) {
      if (reduce.getKind() != ReduceKind::sum)
        return refuse(reduce, "only sums are taken down the columns or over everything");
      output.kind = *kind;
      output.node =
          node(reduce.getInput(), identity(tensorType(reduce.getInput()).getRank()), reduce);
    } else if (shape == space) {
      output.node = node(stored, identity(space.size()), at);
    } else if (shape == space.drop_back()) {
      output.kind = Output::Kind::row;
      output.node = node(stored, identity(program->rank()), at);
    } else {
      return refuse(at, "a result of shape " + shapeText(tensorType(value).getShape()) +
                            " is neither rows nor row values of the space " +
                            shapeText(program->space));
    }
    program->outputs.push_back(output);
    return output.node != nullptr;
  }

  /// The node of `value` seen through `map`, at the columns' partners if there are `pairs`; null
  /// after a refusal. `user` is for the message.
  Node* node(Value value, SmallVector<int> map, Operation* user, PairsAttr pairs = {}) {
    if (!llvm::is_contained(map, static_cast<int>(program->rank())))
      pairs = {}; // the same for all columns
    if (auto broadcast = value.getDefiningOp<BroadcastOp>())
      return node(broadcast.getInput(), throughBroadcast(broadcast, map), broadcast, pairs);
    if (auto transpose = value.getDefiningOp<TransposeOp>())
      return throughTranspose(transpose, map, pairs);
    if (auto partner = value.getDefiningOp<PartnerOp>())
      return throughPartner(partner, map, pairs);
    if (auto random = value.getDefiningOp<RandomOp>())
      value = firstLike(random);
    auto key = std::make_tuple(value.getAsOpaquePointer(), map, pairs.getAsOpaquePointer());
    if (auto found = known.find(key); found != known.end())
      return found->second;
    auto made = std::make_unique<Node>();
    made->value = value;
    made->map = map;
    made->pairs = pairs;
    if (!fill(*made, user))
      return nullptr;
    return known[key] = program->nodes.emplace_back(std::move(made)).get();
  }

  Node* throughTranspose(TransposeOp op, ArrayRef<int> map, PairsAttr pairs) {
    SmallVector<int> inner(map.size());
    for (auto [to, from] : llvm::zip_equal(map, op.getPermutation()))
      inner[from] = to;
    return node(op.getInput(), inner, op, pairs);
  }

  /// What is computed of partners is computed at the partner of each column.
  Node* throughPartner(PartnerOp op, ArrayRef<int> map, PairsAttr pairs) {
    bool isColumn = map.back() == static_cast<int>(program->rank());
    if (isColumn && (!pairs || pairs == op.getPairs()))
      return node(op.getInput(), SmallVector<int>(map), op, pairs ? PairsAttr() : op.getPairs());
    refuse(op, isColumn ? "columns are paired in two ways, one after the other"
                        : "the columns that are paired are no columns of the space " +
                              shapeText(program->space));
    return nullptr;
  }

  /// The first operation that gives the same numbers: `like` has no part in them. A forward that is
  /// computed again shares them with its backward.
  Value firstLike(RandomOp op) {
    for (RandomOp other : block.getOps<RandomOp>())
      if (other.getSeed() == op.getSeed() && other.getOffset() == op.getOffset() &&
          other.getType() == op.getType())
        return other;
    return op;
  }

  bool fill(Node& n, Operation* user) {
    Operation* op = n.op();
    if (n.element().isF64())
      return refuse(op ? op : user, "fp64 exists in references only; kernels compute in fp32");
    if (!op) {
      n.kind = Node::Kind::input;
      dependOnMap(n);
      return true;
    }
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      n.kind = Node::Kind::constant;
      auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
      return (elements && elements.isSplat()) ||
             refuse(op, "a constant with different elements; pass it as an argument");
    }
    if (n.pairs && isa<IndexOp, RandomOp>(op))
      return refuse(op, "'" + op->getName().getStringRef().str() + "' at the partners of columns");
    if (auto index = dyn_cast<IndexOp>(op))
      return fillIndex(n, index);
    if (auto reduce = dyn_cast<ReduceOp>(op))
      return fillReduce(n, reduce, user);
    if (auto random = dyn_cast<RandomOp>(op))
      return fillRandom(n, random);
    if (auto pick = dyn_cast<PickOp>(op))
      return fillPick(n, pick);
    if (auto gather = dyn_cast<GatherOp>(op))
      return fillGather(n, gather);
    n.kind = Node::Kind::scalar;
    if (!findScalarOp(op->getName().getStringRef()))
      return refuse(op, "'" + op->getName().getStringRef().str() + "' has no form in this family");
    for (Value operand : op->getOperands()) {
      Node* from = node(operand, n.map, op, n.pairs);
      if (!from)
        return false;
      n.operands.push_back(from);
      n.perColumn |= from->perColumn;
      n.perRow |= from->perRow;
      n.level = std::max(n.level, from->level);
    }
    return true;
  }

  void dependOnMap(Node& n) {
    for (int d : n.map) {
      n.perColumn |= d == static_cast<int>(program->rank());
      n.perRow |= d >= 0 && d < static_cast<int>(program->rank());
    }
  }

  /// Reached like an input, through its map; one number for all is taken once a row.
  bool fillRandom(Node& n, RandomOp op) {
    n.kind = Node::Kind::random;
    dependOnMap(n);
    n.perRow |= !n.perColumn;
    for (Value operand : {op.getSeed(), op.getOffset()}) {
      Node* from = node(operand, {}, op);
      if (!from)
        return false;
      n.operands.push_back(from);
    }
    return true;
  }

  /// Of rows that are read, by an index that is read; decomposeNamedOps replaced all others.
  bool fillPick(Node& n, PickOp op) {
    n.kind = Node::Kind::pick;
    n.perRow = true;
    SmallVector<int> map = n.map;
    map.push_back(program->rank());
    if (tensorType(op.getInput()).getShape().back() != program->width() ||
        llvm::is_contained(n.map, static_cast<int>(program->rank())))
      return refuse(op, "elements are picked from rows of the kernel's width, " +
                            std::to_string(program->width()));
    for (const auto& [operand, through] : {std::pair{op.getInput(), map}, {op.getIndex(), n.map}}) {
      Node* from = node(operand, through, op);
      if (!from)
        return false;
      n.operands.push_back(from);
    }
    return n.operands[1]->perRow || refuse(op, "elements of all rows are picked by one index");
  }

  /// Rows of a table in memory, by a value of each row.
  bool fillGather(Node& n, GatherOp op) {
    n.kind = Node::Kind::gather;
    n.perColumn = n.perRow = true;
    if (op.getTable().getDefiningOp())
      return refuse(op, "a gather reads any row of its table, which is complete only after the "
                        "kernel that computes it");
    if (n.map.back() != static_cast<int>(program->rank()))
      return refuse(op, "rows that are gathered lie along the rows of the space " +
                            shapeText(program->space) + "; these do not");
    Node* index = node(op.getIndex(), SmallVector<int>(ArrayRef(n.map).drop_back()), op);
    if (!index)
      return false;
    n.operands.push_back(index);
    return (!index->perColumn && index->level == 0) ||
           refuse(op, "the index of a gather differs along a row or depends on its reduction");
  }

  /// A broadcast is only another map of its input.
  SmallVector<int> throughBroadcast(BroadcastOp op, ArrayRef<int> map) {
    SmallVector<int> inner;
    auto from = tensorType(op.getInput());
    for (auto [i, d] : llvm::enumerate(op.getDims())) {
      bool repeated = from.getDimSize(i) == 1 && tensorType(op.getOutput()).getDimSize(d) != 1;
      inner.push_back(repeated ? -1 : map[d]);
    }
    return inner;
  }

  /// Rows are walked by one number; it is an index where there is one leading dimension.
  bool fillIndex(Node& n, IndexOp op) {
    n.kind = Node::Kind::index;
    int dim = n.map[op.getDim()];
    n.perColumn = dim == static_cast<int>(program->rank());
    n.perRow = dim >= 0 && !n.perColumn;
    return !n.perRow || program->rank() == 1 ||
           refuse(op, "the index along dimension " + std::to_string(dim) + " of the space " +
                          shapeText(program->space) +
                          "; kernels know the column, and the row if there is one leading "
                          "dimension");
  }

  bool fillReduce(Node& n, ReduceOp op, Operation* user) {
    n.kind = Node::Kind::rowReduce;
    int64_t size = tensorType(op.getInput()).getShape().back();
    if (!op.isOverLast() || (size != program->width() && sumOverRows(op)))
      return refuse(user, "the sum over leading dimensions at this kernel's input is complete "
                          "only after the kernel that computes it");
    if (llvm::is_contained(n.map, static_cast<int>(program->rank())))
      return refuse(user, "values of rows are repeated down the columns, which is possible only "
                          "after the kernel that computes them");
    if (size != program->width())
      return refuse(op, "a reduction over " + sizeText(size) + " elements in the space " +
                            shapeText(program->space));
    SmallVector<int> map = n.map;
    map.push_back(program->rank());
    Node* from = node(op.getInput(), map, op);
    if (!from)
      return false;
    n.operands.push_back(from);
    n.perRow = true;
    n.level = from->level + 1;
    return true;
  }

  Block& block;
  Refusal& refusal;
  std::unique_ptr<RowProgram> program;
  std::map<std::tuple<const void*, SmallVector<int>, const void*>, Node*> known;
};

} // namespace

std::unique_ptr<RowProgram> analyze(Block& block, Refusal& refusal) {
  return Analysis(block, refusal).run();
}

} // namespace kiln::rows
