// How tiles, what is loaded into them and what is stored of them print themselves.
#include "codegen/families/rows/exit/Keeper.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cu;

void StageColumnsOp::emit(Emitter& e) {
  std::string element = e.memoryType(getFrom().getType().getElement());
  std::string name = e.declare(getColumns(), e.name(getFrom()) + "_s");
  assertBytes(e, *this, "staged_columns_bytes<Tile, " + element + ">()");
  std::string stride = getColumnStride() == 1 ? "" : ", " + std::to_string(getColumnStride());
  std::string call = getRows() ? "(Tile(" + e.name(getRows()) + ", block_index()), "
                               : "<Tile, " + std::to_string(getAccess()) + ">(";
  e.line("const " + element + "* " + name + " = stage_columns" + call + sharedAt(*this) + ", " +
         e.name(getFrom()) + stride + ");");
}

void HoldColumnsOp::emit(Emitter& e) {
  std::string element = e.memoryType(getFrom().getType().getElement());
  std::string stride = getColumnStride() == 1 ? "" : ", " + std::to_string(getColumnStride());
  e.line("const HeldColumns<Tile, " + element + "> " +
         e.declare(getColumns(), e.name(getFrom()) + "_h") + "(Tile(" + e.name(getRows()) +
         ", block_index()), " + e.name(getFrom()) + stride + ");");
}

void PairedOp::emit(Emitter& e) {
  bool halves = getPairs().getKind() == ir::Pairing::half_split;
  std::string element = e.memoryType(getFrom().getType().getElement());
  e.line("const Paired<" + std::string(halves ? "Halves" : "Neighbours") + "<" +
         std::to_string(getPairs().getWidth()) + ">, " + element + "> " +
         e.declare(getPaired(), e.name(getFrom()) + "_pairs") + "{" + e.name(getFrom()) + "};");
}

void TilesOp::emit(Emitter& e) {
  Block& block = getBody().front();
  std::string tile = e.declare(block.getArgument(0), "at");
  std::string index = getCluster() > 1 ? "block_index() / Tile::cluster" : "block_index()";
  std::string start = "Tile " + tile + "(" + e.name(getRows()) + ", " + index + ");";
  if (getOnce()) {
    e.line("const " + start);
    e.block(block);
    return;
  }
  e.open("for (" + start + " " + tile + ".any(); " + tile + ".advance(block_count()))");
  e.block(block);
  e.close();
}

void kiln::rows::keep(Emitter& e, Value fragment, ir::Keep keep) {
  std::string element = e.memoryType(cast<FragmentType>(fragment.getType()).getElement());
  std::string name = e.declare(fragment, "tile");
  if (keep != ir::Keep::shared)
    return e.line("Registers<Tile, " + element + "> " + name + ";");
  auto place = cast<SharedMemoryOp>(fragment.getDefiningOp());
  e.line("Shared<Tile, " + element + "> " + name + "(" + sharedAt(place) + ");");
  assertBytes(e, place, name + ".bytes");
}

void LoadOp::emit(Emitter& e) {
  std::string source = e.name(getFrom()) + ", " + e.name(getMap()) + ");";
  if (getKeep() == ir::Keep::global)
    return e.line("const auto " + e.declare(getFragment(), "tile") + " = reread<" +
                  std::to_string(getAccess()) + ">(" + e.name(getTile()) + ", " + source);
  rows::keep(e, getFragment(), getKeep());
  std::string parts = getParts() > 1 ? ", " + std::to_string(getParts()) : "";
  e.line("load<" + std::to_string(getAccess()) + parts + ">(" + e.name(getTile()) + ", " +
         e.name(getFragment()) + ", " + source);
}
void GatherOp::emit(Emitter& e) {
  std::string column = getColumnStride() == 1 ? "" : ", " + std::to_string(getColumnStride());
  std::string rows = "gathered<" + std::to_string(getAccess()) + ">(" + e.name(getTile()) + ", " +
                     e.name(getTable()) + ", " + e.name(getIndex()) + ", " +
                     e.expression(getCount()) + ", " + e.expression(getStride()) + column + ")";
  if (getKeep() == ir::Keep::global)
    return e.line("const auto " + e.declare(getFragment(), "tile") + " = " + rows + ";");
  rows::keep(e, getFragment(), getKeep());
  e.line("load(" + e.name(getTile()) + ", " + e.name(getFragment()) + ", " + rows + ");");
}
void KeepOp::emit(Emitter& e) {
  rows::keep(e, getFragment(), getKeep());
}

void LoadRowsOp::emit(Emitter& e) {
  e.line(e.scalarType(getValues().getType().getElement()) + " " + e.declare(getValues(), "row") +
         "[Tile::rows];");
  e.line("load_rows(" + e.name(getTile()) + ", " + e.name(getValues()) + ", " + e.name(getFrom()) +
         ", " + e.name(getMap()) + ");");
}
void PickRowsOp::emit(Emitter& e) {
  e.line(e.scalarType(getValues().getType().getElement()) + " " + e.declare(getValues(), "picked") +
         "[Tile::rows];");
  e.line("pick_rows(" + e.name(getTile()) + ", " + e.name(getValues()) + ", " + e.name(getFrom()) +
         ", " + e.name(getMap()) + ", " + e.name(getIndex()) + ");");
}
void LoadUniformOp::emit(Emitter& e) {
  e.line("const " + e.scalarType(getValue().getType()) + " " + e.declare(getValue(), "value") +
         " = load_vector<1, 1>(" + e.name(getFrom()) + ")[0];");
}

void RandomOp::emit(Emitter& e) {
  e.line("const auto " + e.declare(getFragment(), "u") + " = random_tile<" +
         e.scalarType(getFragment().getType().getElement()) + ", " + std::to_string(getBits()) +
         ">(" + e.name(getTile()) + ", " + e.name(getMap()) + ", " + e.expression(getSeed()) +
         ", " + e.expression(getOffset()) + ");");
}
void RandomRowsOp::emit(Emitter& e) {
  std::string name = e.declare(getValues(), "u");
  e.line(e.scalarType(getValues().getType().getElement()) + " " + name + "[Tile::rows];");
  e.line("random_rows<" + std::to_string(getBits()) + ">(" + e.name(getTile()) + ", " + name +
         ", " + e.name(getMap()) + ", " + e.expression(getSeed()) + ", " +
         e.expression(getOffset()) + ");");
}

void RowsOp::emit(Emitter& e) {
  e.line(e.scalarType(getValues().getType().getElement()) + " " + e.declare(getValues(), "row") +
         "[Tile::rows];");
}
void ColumnSumsOp::emit(Emitter& e) {
  e.line("float " + e.declare(getSums(), "sums") + "[Tile::chunks][Tile::vector] = {};");
}
void TotalOp::emit(Emitter& e) {
  e.line("float " + e.declare(getSum(), "total") + " = 0.0f;");
}

void StageRowsOp::emit(Emitter& e) {
  std::string values;
  for (Value value : getValues())
    values += ", " + e.name(value);
  assertBytes(e, *this, "staged_rows_bytes<Tile>(" + std::to_string(getValues().size()) + ")");
  e.line("stage_rows(" + e.name(getTile()) + ", " + sharedAt(*this) + values + ");");
}
static StageRowsOp stagingOf(StoreRowsOp store) {
  for (auto stage : store->getBlock()->getOps<StageRowsOp>())
    if (stage->isBeforeInBlock(store))
      return stage;
  return {};
}
LogicalResult StoreRowsOp::verify() {
  return stagingOf(*this) ? success() : emitOpError("has no cu.stage_rows before it in its block");
}
void StoreRowsOp::emit(Emitter& e) {
  std::string stores;
  for (auto [value, to, map] : llvm::zip_equal(getValues(), getTo(), getMaps()))
    stores += ", RowStore{" + e.name(to) + ", " + e.name(map) + ", " + e.name(value) + "}";
  e.line("store_rows(" + e.name(getTile()) + ", " + sharedAt(stagingOf(*this)) + stores + ");");
}

static void storePartial(Emitter& e, const std::string& function, SharedMemoryOp op, Value rows,
                         Value partials, int64_t width, int64_t first, Value sums) {
  assertBytes(e, op, function + "_bytes<Tile>()");
  e.line("store_" + function + "(Tile(" + e.name(rows) + ", block_index()), " + sharedAt(op) +
         ", " + e.name(partials) + " + block_index() * " + std::to_string(width) + " + " +
         std::to_string(first) + ", " + e.name(sums) + ");");
}
void StoreColumnsOp::emit(Emitter& e) {
  storePartial(e, "partial_columns", *this, getRows(), getPartials(), getWidth(), getFirst(),
               getSums());
}
void StoreTotalOp::emit(Emitter& e) {
  storePartial(e, "partial_scalar", *this, getRows(), getPartials(), getWidth(), getFirst(),
               getSum());
}
void SumPartialsOp::emit(Emitter& e) {
  std::string shape = std::to_string(getThreads());
  if (getOfBlock() != 32)
    shape += ", " + std::to_string(getOfBlock());
  assertBytes(e, *this, "sum_partials_bytes<" + shape + ">()");
  e.line("const float " + e.declare(getTotal(), "total") + " = sum_partials<" + shape + ">(" +
         e.name(getPartials()) + ", " + e.name(getLines()) + ", " + std::to_string(getWidth()) +
         ", " + std::to_string(getStride()) + ", " + sharedAt(*this) + ");");
}
void FinishColumnsOp::emit(Emitter& e) {
  std::string shape = getOfBlock() == 32 ? "" : "<" + std::to_string(getOfBlock()) + ">";
  e.line("store_total" + shape + "(" + e.name(getTotal()) + ", " + std::to_string(getFirst()) +
         ", " + std::to_string(getColumns()) + ", " + e.name(getTo()) + ");");
}

bool PutOp::stores(Value pointer) {
  return getTo() == pointer;
}
bool StoreRowsOp::stores(Value pointer) {
  return llvm::is_contained(getTo(), pointer);
}
bool StoreColumnsOp::stores(Value pointer) {
  return getPartials() == pointer;
}
bool StoreTotalOp::stores(Value pointer) {
  return getPartials() == pointer;
}
bool FinishColumnsOp::stores(Value pointer) {
  return getTo() == pointer;
}
