// How the operations that kernels of all families have print themselves.
#include "codegen/exit/Exit.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cu;

static const char* nameOf(SharedUse use) {
  switch (use) {
  case SharedUse::columns:
    return "values that all rows share";
  case SharedUse::stages:
    return "the stages of a ring";
  case SharedUse::tile:
    return "a tile";
  case SharedUse::exchange:
    return "an exchange between warps";
  case SharedUse::results:
    return "results of rows";
  case SharedUse::epilogue:
    break;
  }
  return "an epilogue";
}

static constexpr const char* kPlaceAttr = "scratch";

void kiln::cu::setPlace(SharedMemoryOp op, int64_t offset) {
  op->setAttr(kPlaceAttr, Builder(op->getContext()).getI64IntegerAttr(offset));
}
static IntegerAttr placeOf(SharedMemoryOp op) {
  return op->getAttrOfType<IntegerAttr>(kPlaceAttr);
}

LogicalResult kiln::cu::havePlaces(KernelOp kernel) {
  bool all = true;
  kernel.walk([&](SharedMemoryOp op) {
    if (op.sharedBytes() == 0 || placeOf(op))
      return;
    all = false;
    op->emitOpError("has no place in shared memory for ")
        << nameOf(op.sharedUse()) << " of " << op.sharedBytes() << " bytes; run kiln-place first";
  });
  return success(all);
}

std::string kiln::cu::sharedAt(SharedMemoryOp op) {
  const IntegerAttr place = placeOf(op);
  return "shared_memory() + " + std::to_string(place ? place.getInt() : 0); // none: of no bytes
}

void kiln::cu::assertBytes(Emitter& e, SharedMemoryOp op, const std::string& bytes) {
  e.line("static_assert(" + bytes + " <= " + std::to_string(op.sharedBytes()) + ");");
}

/// Both stand in the text as they are.
LogicalResult KernelOp::verify() {
  auto isWord = [](StringRef text) {
    return llvm::all_of(text, [](char c) { return llvm::isAlnum(c) || c == '_'; });
  };
  if (!getName().starts_with("kiln_") || !isWord(getName()))
    return emitOpError("has the name '")
           << getName() << "'; it is a word of letters, digits and '_' that begins with 'kiln_'";
  StringRef stem = getHeader();
  if (!stem.consume_back(".cuh") || !isWord(stem))
    return emitOpError("has the header '")
           << getHeader() << "'; it is a file of the device library, such as row.cuh";
  return success();
}

void KernelOp::emit(Emitter& e) {
  Block& block = getBody().front();
  std::string head = getName().str() + "(";
  for (auto [i, argument] : llvm::enumerate(block.getArguments())) {
    auto name = e.declare(argument, cast<StringAttr>(getArguments()[i]).getValue());
    bool written =
        llvm::any_of(argument.getUsers(), [&, pointer = Value(argument)](Operation* user) {
          auto exit = dyn_cast<ExitOpInterface>(user);
          return exit && exit.stores(pointer);
        });
    auto pointer = dyn_cast<PointerType>(argument.getType());
    std::string type = isa<TensorMapType>(argument.getType()) ? "KILN_TENSOR_MAP" : "i64";
    if (pointer)
      type = (written ? "" : "const ") + e.memoryType(pointer.getElement()) + "*";
    head += (i ? ", " : "") + type + " " + name;
  }
  e.line("KILN_KERNEL(" + std::to_string(getThreads()) + ", " + std::to_string(getBlocks()) + ")");
  e.open(head + ")");
  if (!getPrologue().empty())
    e.line(getPrologue().str());
  e.block(block);
  e.close();
}

void WaitOp::emit(Emitter& e) {
  e.line("wait_for_predecessor();");
}
void ReleaseOp::emit(Emitter& e) {
  e.line("release_successor();");
}
void BarrierOp::emit(Emitter& e) {
  e.line(getOfTile() ? "Tile::barrier();" : "block_barrier();");
}

void ClusterArriveOp::emit(Emitter& e) {
  e.line("cluster_arrive();");
}
void ClusterWaitOp::emit(Emitter& e) {
  e.line("cluster_wait();");
}

void AwaitCopiesOp::emit(Emitter& e) {
  e.line("wait_for_copies();");
}

static std::string listText(Emitter& e, ArrayRef<int64_t> constants, OperandRange runTime) {
  std::string text = "{";
  size_t next = 0;
  for (auto [i, value] : llvm::enumerate(constants))
    text += (i ? ", " : "") + (value == -1 ? e.expression(runTime[next++]) : std::to_string(value));
  return text + "}";
}

void RowMapOp::emit(Emitter& e) {
  int64_t stride = getColumnStride();
  std::string column = stride == 1    ? ""
                       : stride == -1 ? ", " + e.expression(getRunTimeStrides().back())
                                      : ", " + std::to_string(stride);
  e.line("const RowMap<" + std::to_string(getStrides().size()) + "> " +
         e.declare(getMap(), "rows") + "{" + listText(e, getSizes(), getRunTimeSizes()) + ", " +
         listText(e, getStrides(), getRunTimeStrides()) + column + "};");
}
