// How the operations over lists of tensors print themselves.
#include "codegen/exit/Exit.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cu;

void PartOp::emit(Emitter& e) {
  std::string condition = getBegin() ? "block_index() >= " + e.name(getBegin()) : "";
  if (getEnd())
    condition += (getBegin() ? " && " : "") + ("block_index() < " + e.name(getEnd()));
  e.open("if (" + condition + ")");
  e.block(getBody().front());
  e.close();
}
void ChunksOp::emit(Emitter& e) {
  Block& block = getBody().front();
  std::string segment = e.declare(block.getArgument(0), "at");
  std::string table = e.name(getChunks()) + ", " + e.name(getSegments());
  e.line("using Tile = ChunkTile<" + std::to_string(getSize()) + " /*elements*/, " +
         std::to_string(getVector()) + " /*vector*/, " + std::to_string(getThreads()) +
         " /*threads*/, " + std::to_string(getPerBlock()) + " /*chunks*/, " +
         std::to_string(getLists()) + " /*lists*/>;");
  const std::string number = getFirst() ? "block_index() - " + e.name(getFirst()) : "";
  const std::string begin = "Tile::begin(" + number + ")";
  const std::string end =
      "Tile::end(" + e.name(getCount()) + (getFirst() ? ", " + number : "") + ")";
  if (getTogether()) {
    assertBytes(e, *this, "segments_bytes<Tile>()");
    std::string all = e.fresh("all");
    e.line("const Segments<Tile> " + all + "(" + table + ", " + begin + ", " + end + ", " +
           sharedAt(*this) + ");");
    e.open(all + ".each([&](auto " + segment + ")");
    e.block(block);
    e.close(");");
    return;
  }
  if (getPerBlock() == 1) {
    e.line("const Segment<Tile> " + segment + "(" + table + ", " +
           (getFirst() ? number : "block_index()") + ");");
    e.block(block);
    return;
  }
  e.open("for (i64 chunk = " + begin + "; chunk < " + end + "; ++chunk)");
  e.line("const Segment<Tile> " + segment + "(" + table + ", chunk);");
  e.block(block);
  e.close();
}
void ListOp::emit(Emitter& e) {
  std::string type = "const " + e.memoryType(getPointer().getType().getElement());
  const bool dependent =
      cast<ChunksOp>(cast<BlockArgument>(getSegment()).getOwner()->getParentOp()).getTogether();
  e.line(type + "* " + e.declare(getPointer(), "list") + " = " + e.name(getSegment()) +
         (dependent ? ".template list<" : ".list<") + type + ">(" + std::to_string(getIndex()) +
         ");");
}

void NumberOp::emit(Emitter& e) {
  std::string value = e.expression(getValue());
  e.line("const " + e.scalarType(getNumber().getType()) + " " + e.declare(getNumber(), "shared") +
         " = " + value + ";");
}

void EachPieceOp::emit(Emitter& e) {
  e.location(*this);
  Block& block = getBody().front();
  e.open(e.name(getSegment()) + ".each([&](auto piece)");
  for (auto [input, argument] : llvm::zip(getInputs(), block.getArguments())) {
    std::string vector = e.fresh(e.name(input) + "_c");
    e.line("const auto " + vector + " = piece.load(" + e.name(input) + ");");
    e.alias(argument, vector + "[i]");
  }
  std::vector<std::string> after; // what is stored once a vector is complete
  for (auto put : block.getOps<PutPieceOp>()) {
    std::string vector = e.fresh(put.getName().str() + "_c");
    e.line("Vec<" + e.memoryType(put.getValue().getType()) + ", piece.vector> " + vector + ";");
    e.aliasTarget(put, vector);
    after.push_back("piece.store(" + e.name(put.getSegment()) + ".list<" +
                    e.memoryType(put.getElement()) + ">(" + std::to_string(put.getIndex()) + "), " +
                    vector + ");");
  }
  e.unrolled("for (int i = 0; i < piece.vector; ++i)");
  e.block(block);
  e.close();
  for (const std::string& line : after)
    e.line(line);
  e.close(");");
}
void PutPieceOp::emit(Emitter& e) {
  e.line(e.target(*this) + "[i] = " + e.expression(getValue()) + ";");
}

void StoreSumOp::emit(Emitter& e) {
  std::string skip = getIndex() ? std::to_string(getIndex()) + " * block_count() + " : "";
  assertBytes(e, *this, "partial_scalar_bytes<Tile>()");
  e.line("store_partial_scalar(Tile(), " + sharedAt(*this) + ", " + e.name(getPartials()) + " + " +
         skip + "block_index(), " + e.name(getSum()) + ");");
}
void LastBlockOp::emit(Emitter& e) {
  assertBytes(e, *this, "is_last_block_bytes()");
  e.open("if (is_last_block(" + e.name(getCounter()) + ", " + sharedAt(*this) + "))");
  e.block(getBody().front());
  e.close();
}
void SumOfPartialsOp::emit(Emitter& e) {
  std::string lines = e.name(getLines());
  std::string skip = getIndex() ? " + " + std::to_string(getIndex()) + " * " + lines : "";
  std::string count = getEnd() ? e.name(getEnd()) : lines;
  if (getFirst()) {
    skip += " + " + e.name(getFirst());
    count += " - " + e.name(getFirst());
  }
  std::string threads = std::to_string(getThreads());
  assertBytes(e, *this, "sum_of_partials_bytes<" + threads + ">()");
  e.line("const float " + e.declare(getTotal(), "total") + " = sum_of_partials<" + threads + ">(" +
         e.name(getPartials()) + skip + ", " + count + ", " + sharedAt(*this) + ");");
}
void StoreScalarOp::emit(Emitter& e) {
  e.line("store_scalar(" + e.name(getTo()) + ", " + e.expression(getValue()) + ");");
}

/// A sum of a block: a number of each of its 32 warps at most.
static constexpr int64_t kSumBytes = 128;

bool StoreSumOp::stores(Value pointer) {
  return getPartials() == pointer;
}
int64_t StoreSumOp::sharedBytes() {
  return kSumBytes;
}
SharedUse StoreSumOp::sharedUse() {
  return SharedUse::epilogue;
}

int64_t ChunksOp::sharedBytes() {
  return getTogether() ? getPerBlock() * (2 + getLists()) * 8 : 0;
}
SharedUse ChunksOp::sharedUse() {
  return SharedUse::tile;
}

bool LastBlockOp::stores(Value pointer) {
  return getCounter() == pointer;
}
int64_t LastBlockOp::sharedBytes() {
  return 4;
}
SharedUse LastBlockOp::sharedUse() {
  return SharedUse::epilogue;
}

int64_t SumOfPartialsOp::sharedBytes() {
  return kSumBytes;
}
SharedUse SumOfPartialsOp::sharedUse() {
  return SharedUse::epilogue;
}

bool StoreScalarOp::stores(Value pointer) {
  return getTo() == pointer;
}
