// How the operations on tiles whose rows are neighbours in memory print themselves.
#include "codegen/families/rows/exit/Keeper.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cu;

static void declareTransposed(Emitter& e, Value tile, Value fragment) {
  auto place = cast<SharedMemoryOp>(fragment.getDefiningOp());
  std::string element = e.memoryType(cast<FragmentType>(fragment.getType()).getElement());
  std::string name = e.declare(fragment, "transposed");
  e.line("Transposed<Tile, " + element + "> " + name + "(" + e.name(tile) + ", " + sharedAt(place) +
         ");");
  assertBytes(e, place, name + ".bytes");
}

void LoadTransposedOp::emit(Emitter& e) {
  declareTransposed(e, getTile(), getFragment());
  e.line("load_transposed(" + e.name(getTile()) + ", " + e.name(getFragment()) + ", " +
         e.name(getFrom()) + ", " + e.name(getMap()) + ");");
}
void TransposedOp::emit(Emitter& e) {
  declareTransposed(e, getTile(), getFragment());
}
void StoreTransposedOp::emit(Emitter& e) {
  e.line("store_transposed(" + e.name(getTile()) + ", " + e.name(getFragment()) + ", " +
         e.name(getTo()) + ", " + e.name(getMap()) + ");");
}
bool StoreTransposedOp::stores(Value pointer) {
  return getTo() == pointer;
}
