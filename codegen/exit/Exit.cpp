// How the operations that kernels of all families have print themselves.
#include "codegen/exit/Exit.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cu;

std::string kiln::cu::sharedAt(int64_t offset) {
  return "shared_memory() + " + std::to_string(offset);
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
    std::string type = pointer
                           ? (written ? "" : "const ") + e.memoryType(pointer.getElement()) + "*"
                           : std::string("i64");
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
