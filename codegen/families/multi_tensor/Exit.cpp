// How the operations over lists of tensors print themselves.
#include "codegen/exit/Exit.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cu;

void PartOp::emit(Emitter& e) {
  std::string condition = getBegin() ? "block_index() >= " + e.name(getBegin()) : "";
  if (getEnd())
    condition += (getBegin() ? " && " : "") + ("block_index() < " + e.name(getEnd()));
  e.open(condition.empty() ? "" : "if (" + condition + ")");
  e.block(getBody().front());
  e.close();
}
void LookUpOp::emit(Emitter& e) {
  std::string found = e.declare(getFound(), getTable() == 0 ? "at" : "all");
  std::string table = e.name(getChunks()) + ", " + e.name(getSegments()) + ", ";
  std::string count = e.name(getCount());
  e.line("using Tile = ChunkTile<" + std::to_string(getSize()) + " /*elements*/, " +
         std::to_string(getVector()) + " /*vector*/, " + std::to_string(getThreads()) +
         " /*threads*/, " + std::to_string(getPerBlock()) + " /*chunks*/, " +
         std::to_string(getLists()) + " /*lists*/>;");
  std::string number = "block_index()";
  if (getFirst())
    number += " - " + e.name(getFirst());
  if (getTable() == 0)
    return e.line("const Segment<Tile> " + found + "(" + table + number + ");");
  std::string size = std::to_string(getTable());
  assertBytes(e, *this, "segments_bytes<Tile, " + size + ">()");
  std::string span = getShared() ? "share_of_chunks(" + count + ")"
                                 : "chunks_of_block<Tile>(" + count + ", " + number + ")";
  e.line("const Segments<Tile, " + size + "> " + found + "(" + table + span + ", " +
         sharedAt(*this) + ");");
}
static LookUpOp lookUpOf(Value segment) {
  auto chunks = cast<ChunksOp>(cast<BlockArgument>(segment).getOwner()->getParentOp());
  return chunks.getFound().getDefiningOp<LookUpOp>();
}
void ChunksOp::emit(Emitter& e) {
  Block& block = getBody().front();
  if (lookUpOf(block.getArgument(0)).getTable() == 0) {
    e.alias(block.getArgument(0), e.name(getFound()));
    e.block(block);
    return;
  }
  std::string segment = e.declare(block.getArgument(0), "at");
  e.open(e.name(getFound()) + ".each([&](auto " + segment + ")");
  e.block(block);
  e.close(");");
}
/// The pointer to the chunk's part of a list.
static std::string listOf(Emitter& e, Value segment, const std::string& type, int64_t index) {
  const bool isDependent = lookUpOf(segment).getTable() > 0;
  return e.name(segment) + (isDependent ? ".template list<" : ".list<") + type + ">(" +
         std::to_string(index) + ")";
}
void ListOp::emit(Emitter& e) {
  std::string type = "const " + e.memoryType(getPointer().getType().getElement());
  e.line(type + "* " + e.declare(getPointer(), "list") + " = " +
         listOf(e, getSegment(), type, getIndex()) + ";");
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
    std::string type = e.memoryType(put.getElement());
    after.push_back("piece.store(" + listOf(e, put.getSegment(), type, put.getIndex()) + ", " +
                    vector + ");");
  }
  e.unrolled("for (int i = 0; i < piece.vector; ++i)");
  e.block(block);
  e.close();
  for (const std::string& line : after)
    e.line(line);
  e.close(");");
}
void StreamOp::emit(Emitter& e) {
  Block& block = getBody().front();
  const size_t lists = getLists().size();
  std::string loads, ends;
  for (size_t i = 0; i < lists; ++i)
    loads += (i > 0 ? ", " : "") + ("piece.load(at.template list<const " +
                                    e.memoryType(cast<TypeAttr>(getTypes()[i]).getValue()) + ">(" +
                                    std::to_string(getLists()[i]) + "))");
  for (auto [i, sum] : llvm::enumerate(getSums())) {
    std::string own = e.declare(block.getArgument(lists + i), e.name(sum) + "_own");
    e.line("float " + own + " = 0.0f;");
    ends += e.name(sum) + " += " + own + "; " + own + " = 0.0f; ";
  }
  e.location(*this);
  const std::string load = "[&](auto at, auto piece) { return pack(" + loads + "); }";
  e.open(e.name(getFound()) + ".stream(" + load + ", [&](auto piece, const auto& loaded)");
  for (size_t i = 0; i < lists; ++i) {
    std::string vector = e.fresh(cast<StringAttr>(getNames()[i]).str() + "_c");
    e.line("const auto& " + vector + " = loaded.template get<" + std::to_string(i) + ">();");
    e.alias(block.getArgument(i), vector + "[i]");
  }
  e.unrolled("for (int i = 0; i < piece.vector; ++i)");
  e.block(block);
  e.close();
  e.close(", [&] { " + ends + "});");
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
  std::string skip = getIndex() ? " + " + std::to_string(getIndex()) + " * block_count()" : "";
  std::string count = getEnd() ? e.name(getEnd()) : "block_count()";
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

int64_t LookUpOp::sharedBytes() {
  return getTable() * (2 + getLists()) * 8;
}
SharedUse LookUpOp::sharedUse() {
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
