// How the operations on tiles whose rows are neighbours in memory print themselves.
#include "codegen/families/rows/exit/Keeper.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cu;

static void declareTurned(Emitter& e, Value tile, Value fragment) {
  auto place = cast<SharedMemoryOp>(fragment.getDefiningOp());
  std::string element = e.memoryType(cast<FragmentType>(fragment.getType()).getElement());
  std::string name = e.declare(fragment, "turned");
  e.line("Turned<Tile, " + element + "> " + name + "(" + e.name(tile) + ", " + sharedAt(place) +
         ");");
  assertBytes(e, place, name + ".bytes");
}

void LoadTurnedOp::emit(Emitter& e) {
  declareTurned(e, getTile(), getFragment());
  e.line("load_turned(" + e.name(getTile()) + ", " + e.name(getFragment()) + ", " +
         e.name(getFrom()) + ", " + e.name(getMap()) + ");");
}
void TurnedOp::emit(Emitter& e) {
  declareTurned(e, getTile(), getFragment());
}
void StoreTurnedOp::emit(Emitter& e) {
  e.line("store_turned(" + e.name(getTile()) + ", " + e.name(getFragment()) + ", " +
         e.name(getTo()) + ", " + e.name(getMap()) + ");");
}
bool StoreTurnedOp::stores(Value pointer) {
  return getTo() == pointer;
}
