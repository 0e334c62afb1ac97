// How one kernel of the row family is lowered; shared by the files that do it. The order of a
// generated kernel:
//   maps of the buffers; the ring and what fills it; wait; uniform values; running column sums;
//   for each tile: loads, random numbers; for each level: values of rows, pass over the elements,
//   exchange;
//   release; partial column sums.
#pragma once

#include "codegen/exit/Entry.h"
#include "codegen/families/rows/Nodes.h"
#include "codegen/families/rows/PassPlan.h"
#include "codegen/families/rows/Schedule.h"
#include "codegen/families/rows/Skeleton.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/MapVector.h"

#include <deque>
#include <optional>

namespace kiln::rows {

inline bool isFull(const Node* n) {
  return n->perColumn && n->perRow;
}
inline bool isRowValue(const Node* n) {
  return n->perRow && !n->perColumn;
}
inline bool isUniform(const Node* n) {
  return !n->perRow && !n->perColumn;
}
/// What is stored of a value that is computed with in fp32.
inline Node* beforeWidening(Node* n) {
  bool widens = n->kind == Node::Kind::scalar && mlir::isa<mlir::arith::ExtFOp>(n->op());
  return widens ? n->operands[0] : n;
}

class Lowering {
 public:
  Lowering(const KernelContext& context, mlir::ModuleOp module, LaunchPlan& plan)
      : context(context), program(context.program), schedule(context.schedule), plan(plan),
        builder(module.getContext()), location(module.getLoc()) {
    builder.setInsertionPointToEnd(module.getBody());
  }
  void run();

 private:
  struct ElementBody; // builds the scalar operations of one pass

  // Arguments.cpp
  const BufferInfo* bufferOf(const Node* input) const;
  const BufferInfo* tableOf(const Node* gather) const;
  bool isOlder(const Node* input) const;
  int64_t accessWidth(const Access& access) const;
  mlir::Value pointer(const BufferInfo& buffer, mlir::Type element);
  mlir::Value source(const Access& access, mlir::Type element);
  mlir::Value product(KernelArgument::Kind kind, llvm::ArrayRef<Extent> factors,
                      const std::string& name);
  mlir::Value strideArgument(const Access& access, const Stride& stride);
  mlir::Value rowMap(const Access& access, bool withColumn);
  mlir::Location named(const std::string& name);
  mlir::Location named(const std::string& name, mlir::Location at);
  std::string nameOf(const Node* node, llvm::StringRef fallback);
  mlir::Type resultElement(const Output& output);

  // Skeleton.cpp: the kernel around its tiles
  const BufferInfo& numbersOf(const Node* random);
  void collectAccesses();
  std::string tileText() const;
  void startKernel();
  void emitBody();
  void startRing();
  void awaitPredecessor();
  void stageColumns();
  void awaitColumns();
  std::string sumName(const Output& output);
  mlir::Value partials();
  void emitPartial(const Output& output, int64_t first);
  void emitUniforms();
  void notePromises();
  void finishKernel();
  void emitFinishKernel();

  // Tile.cpp
  mlir::Value index(Node* node);
  void emitTile();
  void emitInput(Node* node, const Access& access);
  void emitInputs();
  void emitPick(Node* node);
  bool transposes(const Access& access) const {
    return isTransposed(access, program.width()) && schedule.rowsPerBlock() >= kTransposedRows;
  }
  bool readsTransposed();
  void storeTransposed();
  void emitRandom(Node* node, const Access& access);
  void emitGathers();
  void emitRowValues(int level);
  void stageRowOutputs();
  void storeRowOutputs();
  void sumRowOutputs();
  mlir::Value valuesOfRows(Node* node, mlir::Location at);
  void emitEachRow(llvm::ArrayRef<Node*> targets);

  // Elements.cpp
  void emitPass(int level);
  mlir::Value accumulator(Node* reduce);
  void computeRows(mlir::Location at, llvm::ArrayRef<mlir::Value> inputs,
                   llvm::function_ref<void(mlir::ValueRange)> body);
  mlir::Value extremeOf(Node* reduce) const;
  bool emitExtremes(Pass& pass);
  void emitEach(Pass& pass);
  void emitResult(const Output& output, ElementBody& body);
  void emitExchange(Pass& pass);

  // Online.cpp
  bool sumsExponentials(Node* reduce, Node* largest) const;
  bool needsElementsAgain() const;
  bool emitOnline(Pass& pass);
  void scaleOnline(Node* largest);

  bool isProgrammatic() const { return schedule.launch != Launch::plain; }
  bool hasRing() const { return schedule.keep == Keep::ring; }
  /// Values of rows make no whole tiles where those begin anywhere.
  bool comesThroughRing(const Node* input) const {
    return hasRing() && (isFull(input) || !context.isLoose);
  }
  ir::Keep keep() const { return static_cast<ir::Keep>(schedule.keep); }
  ir::ScheduleAttr scheduleAttr() const {
    return ir::ScheduleAttr::get(builder.getContext(), schedule.general());
  }
  /// Whether a tile loads what is older before it waits for the predecessor.
  bool loadsAhead() const { return schedule.launch == Launch::olderFirst && !hasRing(); }

  const KernelContext& context;
  const RowProgram& program;
  Schedule schedule;
  LaunchPlan& plan;
  mlir::OpBuilder builder;
  mlir::Location location;

  std::vector<Pass> passes;
  llvm::MapVector<Node*, Access> inputAccess, randomAccess;
  std::deque<BufferInfo> imagined;
  llvm::MapVector<const Output*, Access> outputAccess;
  llvm::SmallVector<std::pair<size_t, size_t>> runs;
  llvm::SmallVector<std::pair<const Output*, int64_t>> sums; // and the first column in the partials
  int64_t partialWidth = 0, partialStride = 0;

  std::optional<cu::Entry> entry; // the main kernel, then the one that finishes its sums
  mlir::Operation* mapsEnd = nullptr;
  mlir::Value rows, tile, ring;
  llvm::DenseMap<Node*, int64_t> places; // of an input in a stage of the ring
  llvm::SmallVector<std::pair<cu::RowMapOp, mlir::Value>> maps;
  llvm::DenseMap<Node*, mlir::Value> uniforms, rowValues, fragments, randoms, columns;
  cu::AwaitCopiesOp awaited; // of the tile
  Node* onlineSum = nullptr; // taken in the first pass, beside the row's largest element
  mlir::Value ownLargest;    // to which a thread's onlineSum refers
  int columnsLevel = -1;     // the pass before which a tile awaits the columns
  bool keepsGuarded = false; // values are kept of rows before the end only
  llvm::SmallVector<mlir::Value> rowOutputs;
  llvm::MapVector<const Output*, mlir::Value> transposed; // tiles of results on their way to memory
  llvm::DenseMap<const Output*, mlir::Value> accumulators;
};

} // namespace kiln::rows
