// See Nodes.h.
#include "codegen/families/rows/Nodes.h"

#include "dialect/Scalar.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kiln::ir;

namespace kiln::rows {

static std::string sizeText(int64_t size) {
  return ShapedType::isDynamic(size) ? "?" : std::to_string(size);
}

bool isOverEverything(ReduceOp reduce) {
  return static_cast<int64_t>(reduce.getDims().size()) == tensorType(reduce.getInput()).getRank();
}

std::optional<Output::Kind> sumOverRows(ReduceOp reduce, ArrayRef<int64_t> space) {
  if (!reduce)
    return std::nullopt;
  ArrayRef<int64_t> shape = tensorType(reduce.getInput()).getShape();
  if (shape == space && reduce.isOverLeading())
    return Output::Kind::columnSum;
  if (shape == space && reduce.isOverAll())
    return Output::Kind::totalSum;
  if (shape == space.drop_back() && isOverEverything(reduce))
    return Output::Kind::rowSum;
  return std::nullopt;
}

Value shapeSource(const Node& node) {
  auto named = node.value.getDefiningOp<KilnOpInterface>();
  return named ? named.shapeSource() : node.value;
}

Node* beforeRounding(Node* n) {
  const bool rounds = n->kind == Node::Kind::scalar && isa<arith::TruncFOp>(n->op());
  return rounds ? n->operands[0] : n;
}

Value scalarOp(OpBuilder& builder, Node* node, llvm::function_ref<Value(Node*)> operand) {
  SmallVector<Value> operands;
  for (Node* from : node->operands)
    operands.push_back(operand(from));
  Operation* clone = node->op()->cloneWithoutRegions();
  clone->setOperands(operands);
  clone->getResult(0).setType(node->element());
  builder.insert(clone);
  return clone->getResult(0);
}

Value scalarConstant(OpBuilder& builder, Node* node) {
  auto elements = cast<DenseElementsAttr>(cast<arith::ConstantOp>(node->op()).getValue());
  auto value = elements.getSplatValue<TypedAttr>();
  auto number = dyn_cast<FloatAttr>(value);
  if (!number || number.getType().isF32())
    return builder.create<arith::ConstantOp>(node->op()->getLoc(), value);
  APFloat wide = number.getValue();
  bool lossy;
  wide.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &lossy);
  Value constant = builder.create<arith::ConstantOp>(node->op()->getLoc(),
                                                     FloatAttr::get(builder.getF32Type(), wide));
  return builder.create<arith::TruncFOp>(node->op()->getLoc(), number.getType(), constant);
}

SmallVector<int> identity(size_t rank) {
  SmallVector<int> map;
  for (size_t d = 0; d < rank; ++d)
    map.push_back(d);
  return map;
}

Node* Nodes::find(Value value, SmallVector<int> map, Operation* user, PairsAttr pairs) {
  if (!llvm::is_contained(map, static_cast<int>(program.rank())))
    pairs = {}; // the same for all columns
  if (auto broadcast = value.getDefiningOp<BroadcastOp>())
    return find(broadcast.getInput(), throughBroadcast(broadcast, map), broadcast, pairs);
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
  return known[key] = program.nodes.emplace_back(std::move(made)).get();
}

Node* Nodes::throughTranspose(TransposeOp op, ArrayRef<int> map, PairsAttr pairs) {
  SmallVector<int> inner(map.size());
  for (auto [to, from] : llvm::zip_equal(map, op.getPermutation()))
    inner[from] = to;
  return find(op.getInput(), inner, op, pairs);
}

Node* Nodes::throughPartner(PartnerOp op, ArrayRef<int> map, PairsAttr pairs) {
  bool isColumn = map.back() == static_cast<int>(program.rank());
  if (isColumn && (!pairs || pairs == op.getPairs()))
    return find(op.getInput(), SmallVector<int>(map), op, pairs ? PairsAttr() : op.getPairs());
  refusal.because(op, isColumn ? "columns are paired in two ways, one after the other"
                               : "the columns that are paired are no columns of the space " +
                                     shapeText(program.space));
  return nullptr;
}

Value Nodes::firstLike(RandomOp op) {
  for (RandomOp other : block.getOps<RandomOp>())
    if (other.getSeed() == op.getSeed() && other.getOffset() == op.getOffset() &&
        other.getBits() == op.getBits() && other.getType() == op.getType())
      return other;
  return op;
}

bool Nodes::fill(Node& n, Operation* user) {
  Operation* op = n.op();
  if (n.element().isF64())
    return refusal.because(op ? op : user,
                           "fp64 exists in references only; kernels compute in fp32");
  if (!op) {
    n.kind = Node::Kind::input;
    dependOnMap(n);
    return true;
  }
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    n.kind = Node::Kind::constant;
    auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
    return (elements && elements.isSplat()) ||
           refusal.because(op, "a constant with different elements; pass it as an argument");
  }
  if (n.pairs && isa<IndexOp, RandomOp>(op))
    return refusal.because(op, "'" + op->getName().getStringRef().str() +
                                   "' at the partners of columns");
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
    return refusal.because(op, "'" + op->getName().getStringRef().str() +
                                   "' has no form in this family");
  for (Value operand : op->getOperands()) {
    Node* from = find(operand, n.map, op, n.pairs);
    if (!from)
      return false;
    n.operands.push_back(from);
    n.perColumn |= from->perColumn;
    n.perRow |= from->perRow;
    n.level = std::max(n.level, from->level);
  }
  return true;
}

void Nodes::dependOnMap(Node& n) {
  for (int d : n.map) {
    n.perColumn |= d == static_cast<int>(program.rank());
    n.perRow |= d >= 0 && d < static_cast<int>(program.rank());
  }
}

bool Nodes::fillRandom(Node& n, RandomOp op) {
  n.kind = Node::Kind::random;
  dependOnMap(n);
  n.perRow |= !n.perColumn;
  for (Value operand : {op.getSeed(), op.getOffset()}) {
    Node* from = find(operand, {}, op);
    if (!from)
      return false;
    n.operands.push_back(from);
  }
  return true;
}

bool Nodes::fillPick(Node& n, PickOp op) {
  n.kind = Node::Kind::pick;
  n.perRow = true;
  SmallVector<int> map = n.map;
  map.push_back(program.rank());
  if (tensorType(op.getInput()).getShape().back() != program.width() ||
      llvm::is_contained(n.map, static_cast<int>(program.rank())))
    return refusal.because(op, "elements are picked from rows of the kernel's width, " +
                                   std::to_string(program.width()));
  for (const auto& [operand, through] : {std::pair{op.getInput(), map}, {op.getIndex(), n.map}}) {
    Node* from = find(operand, through, op);
    if (!from)
      return false;
    n.operands.push_back(from);
  }
  return n.operands[1]->perRow ||
         refusal.because(op, "elements of all rows are picked by one index");
}

bool Nodes::fillGather(Node& n, GatherOp op) {
  n.kind = Node::Kind::gather;
  n.perColumn = n.perRow = true;
  if (op.getTable().getDefiningOp())
    return refusal.because(op,
                           "a gather reads any row of its table, which is complete only after the "
                           "kernel that computes it");
  if (n.map.back() != static_cast<int>(program.rank()))
    return refusal.because(op, "rows that are gathered lie along the rows of the space " +
                                   shapeText(program.space) + "; these do not");
  Node* index = find(op.getIndex(), SmallVector<int>(ArrayRef(n.map).drop_back()), op);
  if (!index)
    return false;
  n.operands.push_back(index);
  return (!index->perColumn && index->level == 0) ||
         refusal.because(op,
                         "the index of a gather differs along a row or depends on its reduction");
}

SmallVector<int> Nodes::throughBroadcast(BroadcastOp op, ArrayRef<int> map) {
  SmallVector<int> inner;
  auto from = tensorType(op.getInput());
  for (auto [i, d] : llvm::enumerate(op.getDims())) {
    bool repeated = from.getDimSize(i) == 1 && tensorType(op.getOutput()).getDimSize(d) != 1;
    inner.push_back(repeated ? -1 : map[d]);
  }
  return inner;
}

bool Nodes::fillIndex(Node& n, IndexOp op) {
  n.kind = Node::Kind::index;
  int dim = n.map[op.getDim()];
  n.perColumn = dim == static_cast<int>(program.rank());
  n.perRow = dim >= 0 && !n.perColumn;
  return !n.perRow || program.rank() == 1 ||
         refusal.because(op, "the index along dimension " + std::to_string(dim) + " of the space " +
                                 shapeText(program.space) +
                                 "; kernels know the column, and the row if there is one leading "
                                 "dimension");
}

bool Nodes::fillReduce(Node& n, ReduceOp op, Operation* user) {
  n.kind = Node::Kind::rowReduce;
  int64_t size = tensorType(op.getInput()).getShape().back();
  if (!op.isOverLast() || (size != program.width() && sumOverRows(op, program.space)))
    return refusal.because(user,
                           "the sum over leading dimensions at this kernel's input is complete "
                           "only after the kernel that computes it");
  if (llvm::is_contained(n.map, static_cast<int>(program.rank())))
    return refusal.because(user,
                           "values of rows are repeated down the columns, which is possible only "
                           "after the kernel that computes them");
  if (size != program.width())
    return refusal.because(op, "a reduction over " + sizeText(size) + " elements in the space " +
                                   shapeText(program.space));
  SmallVector<int> map = n.map;
  map.push_back(program.rank());
  Node* from = find(op.getInput(), map, op);
  if (!from)
    return false;
  n.operands.push_back(from);
  n.perRow = true;
  n.level = from->level + 1;
  return true;
}

} // namespace kiln::rows
