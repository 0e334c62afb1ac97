// How the operations of rings of bulk copies print themselves.
#include "codegen/families/rows/exit/Keeper.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cu;

void RingOp::emit(Emitter& e) {
  std::string name = e.declare(getRing(), "ring");
  e.line("Ring<Tile, " + std::to_string(getStages()) + " /*stages*/, " +
         std::to_string(getStageBytes()) + " /*bytes*/> " + name + "(" + sharedAt(*this) + ");");
  assertBytes(e, *this, "ring_bytes<decltype(" + name + ")>()");
}
void MoveOp::emit(Emitter& e) {
  auto copies = [&](StringRef name, bool older) {
    e.open("const auto " + name.str() + " = [&](const RingStage& stage)");
    for (auto [i, input] : llvm::enumerate(getInputs()))
      if (int64_t elements = getElements()[i]; getOlder()[i] == older)
        e.line("stage." +
               (elements == 0 ? "copy_rows(" : "copy<" + std::to_string(elements) + ">(") +
               e.name(input) + ", " + std::to_string(getPlaces()[i]) + ");");
    e.close(";");
  };
  e.open("if (" + e.name(getRing()) + ".moves())");
  copies("older", true);
  copies("rest", false);
  e.line("return " + e.name(getRing()) + ".move(" + e.name(getRows()) + ", older, rest);");
  e.close();
}
void AwaitRingOp::emit(Emitter& e) {
  e.line(e.name(getRing()) + ".await();");
}
void ReleaseRingOp::emit(Emitter& e) {
  e.line(e.name(getRing()) + ".release();");
}
void ReadOp::emit(Emitter& e) {
  rows::keep(e, getFragment(), ir::Keep::registers);
  e.line(e.name(getRing()) + ".read(" + e.name(getTile()) + ", " + e.name(getFragment()) + ", " +
         std::to_string(getPlace()) + ");");
}
void ReadRowsOp::emit(Emitter& e) {
  e.line(e.scalarType(getValues().getType().getElement()) + " " + e.declare(getValues(), "row") +
         "[Tile::rows];");
  e.line(e.name(getRing()) + ".read_rows(" + e.name(getTile()) + ", " + e.name(getValues()) + ", " +
         e.name(getFrom()) + ", " + std::to_string(getPlace()) + ");");
}
