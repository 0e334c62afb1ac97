// How the operations of rings of bulk copies print themselves.
#include "codegen/families/rows/exit/Keeper.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cu;

void RingOp::emit(Emitter& e) {
  std::string name = e.declare(getRing(), "ring");
  e.line("Ring<Tile, " + std::to_string(getStages()) + " /*stages*/, " +
         std::to_string(getStageBytes()) + " /*bytes*/> " + name + "(" + sharedAt(*this) + ");");
  assertBytes(e, *this, "ring_bytes<decltype(" + name + ")>()");
}
bool kiln::rows::isLoose(KernelOp kernel) {
  bool loose = false;
  kernel.walk([&](MoveOp move) { loose = move.getLoose(); });
  return loose;
}
static std::string copyOf(int64_t elements, bool loose) {
  if (elements == 0)
    return loose ? "prefetch_rows(" : "copy_rows(";
  return (loose ? "copy_loose<" : "copy<") + std::to_string(elements) + ">(";
}
static void prefetches(Emitter& e, MoveOp move) {
  e.open("const auto soon = [&](const RingStage& stage)");
  for (auto [input, elements] : llvm::zip_equal(move.getInputs(), move.getElements()))
    if (elements > 0)
      e.line("stage.prefetch_tile<" + std::to_string(elements) + ">(" + e.name(input) + ");");
  e.close(";");
}
void MoveOp::emit(Emitter& e) {
  auto copies = [&](StringRef name, bool older) {
    e.open("const auto " + name.str() + " = [&](const RingStage& stage)");
    for (auto [i, input] : llvm::enumerate(getInputs()))
      if (int64_t elements = getElements()[i]; getOlder()[i] == older)
        e.line("stage." + copyOf(elements, getLoose()) + e.name(input) +
               (!getLoose()     ? ", "
                : elements == 0 ? ""
                                : ", " + e.name(getRows()) + ", ") +
               (getLoose() && elements == 0 ? "" : std::to_string(getPlaces()[i])) + ");");
    e.close(";");
  };
  e.open("if (" + e.name(getRing()) + ".moves())");
  copies("older", true);
  copies("rest", false);
  if (getPrefetch())
    prefetches(e, *this);
  e.line("return " + e.name(getRing()) + ".move(" + e.name(getRows()) +
         (getPrefetch() ? ", soon" : "") + ", older, rest);");
  e.close();
}
void AwaitRingOp::emit(Emitter& e) {
  e.line(e.name(getRing()) + ".await();");
}
void ReleaseRingOp::emit(Emitter& e) {
  e.line(e.name(getRing()) + ".release();");
}
/// Whether all who use the elements of a tile widen them first.
static bool isAlwaysWidened(Value fragment) {
  return llvm::all_of(fragment.getUses(), [](OpOperand& use) {
    auto each = dyn_cast<EachOp>(use.getOwner());
    const unsigned input = use.getOperandNumber() - 1; // behind the tile
    return each && llvm::all_of(each.getBody().front().getArgument(input).getUsers(),
                                [](Operation* user) { return isa<arith::ExtFOp>(user); });
  });
}
/// A single element has a register in any case: it is widened once, not in each pass. So are those
/// of vectors that overlap the ends of rows, which are many instructions as it is.
void ReadOp::emit(Emitter& e) {
  auto kernel = (*this)->getParentOfType<KernelOp>();
  const rows::Schedule schedule = rows::scheduleOf(kernel);
  const bool widens = schedule.vector == 1 || schedule.overlaps(kernel.getColumns());
  if (getFrom() && widens && isAlwaysWidened(getFragment()))
    e.line("Registers<Tile, float> " + e.declare(getFragment(), "tile") + ";");
  else
    rows::keep(e, getFragment(), ir::Keep::registers);
  e.line(e.name(getRing()) + (getFrom() ? ".read_loose(" : ".read(") + e.name(getTile()) + ", " +
         e.name(getFragment()) + ", " + std::to_string(getPlace()) +
         (getFrom() ? ", " + e.name(getFrom()) : "") + ");");
}
void ReadRowsOp::emit(Emitter& e) {
  e.line(e.scalarType(getValues().getType().getElement()) + " " + e.declare(getValues(), "row") +
         "[Tile::rows];");
  e.line(e.name(getRing()) + ".read_rows(" + e.name(getTile()) + ", " + e.name(getValues()) + ", " +
         e.name(getFrom()) + ", " + std::to_string(getPlace()) + ");");
}
