// See Skeleton.h.
#include "codegen/families/row_sums/Skeleton.h"

#include "codegen/exit/Maps.h"

using namespace mlir;
using kiln::cu::rowMap;
using kiln::cu::Walk;
using kiln::family::Access;
using kiln::family::Stride;

namespace kiln::row_sums {
namespace {

constexpr llvm::StringLiteral kHeader = "sums.cuh";

class Lowering {
 public:
  Lowering(const KernelContext& context, ModuleOp module, LaunchPlan& plan)
      : context(context), plan(plan), builder(module.getContext()),
        location(context.sum.op->getLoc()) {
    builder.setInsertionPointToEnd(module.getBody());
  }

  void run() {
    divideDimensions();
    const bool listed = context.index != nullptr;
    tiling = tilingOf({columns, vector, kept.count(), listed ? -1 : summed.count(), listed});
    if (listed)
      emitLists();
    if (tiling.parts > 1)
      plan.workspaces.push_back({partialsName(),
                                 DType::f32,
                                 columns * tiling.parts,
                                 -1,
                                 {{kept.space.begin(), kept.space.end()}}});
    emitSum();
    if (tiling.parts > 1)
      emitSumOfParts();
  }

 private:
  // --- dimensions -----------------------------------------------------------------------------

  /// The last dimensions that are kept and lie densely in both tensors are the columns of a row,
  /// if their sizes are known; the others lead to the rows of the result and to their terms.
  void divideDimensions() {
    const auto& sizes = context.rows->tensor.shape;
    const size_t rank = sizes.size();
    Access in = family::makeAccess(*context.rows), out = family::makeAccess(*context.output);
    size_t inner = rank, innerOut = out.leading.size(); // the first dimension of the columns
    while (inner > 0 && !context.sum.summed[inner - 1] && sizes[inner - 1].size > 0 &&
           continues(in, inner - 1) && continues(out, innerOut - 1)) {
      --inner, --innerOut;
      if (columns == 1)
        inColumn = in.leading[inner], outColumn = out.leading[innerOut];
      columns *= sizes[inner].size;
    }
    from = {context.rows, {}, inColumn, {}}, terms = from, to = {context.output, {}, outColumn, {}};
    for (size_t d = 0, o = 0; d < inner; ++d) {
      if (context.sum.summed[d]) {
        summed.space.push_back(sizes[d]);
        terms.leading.push_back(in.leading[d]);
        continue;
      }
      kept.space.push_back(sizes[d]);
      from.leading.push_back(in.leading[d]);
      to.leading.push_back(out.leading[o++]);
    }
    if (context.index) { // rows of the result are the segments
      kept.space.push_back(context.output->tensor.shape.front());
      from.leading.push_back({});
      to.leading.push_back(out.leading.front());
    }
    kept.runs = family::mergeDimensions(kept.space, {from, to});
    summed.runs = family::mergeDimensions(summed.space, terms);
    Access all = from; // where any row lies
    llvm::append_range(all.leading, terms.leading);
    int64_t widest = 16 / static_cast<int64_t>(sizeInBytes(context.rows->tensor.dtype));
    while (columns % widest != 0)
      widest /= 2;
    vector = family::widestAccess(all, widest);
  }

  /// Whether dimension d lies so that it and the columns found so far are one.
  bool continues(const Access& access, size_t d) const {
    if (!access.leading[d].isConstant())
      return false;
    return d + 1 == access.leading.size() ||
           access.leading[d].coefficient ==
               access.leading[d + 1].coefficient * access.buffer->tensor.shape[d + 1].size;
  }

  // --- kernels --------------------------------------------------------------------------------

  std::string partsName() const { return context.name + "_parts"; }
  std::string partialsName() const { return context.name + "_partials"; }
  Type f32() { return builder.getF32Type(); }

  /// The rows of the result, or their parts in memory of their own.
  void emitSum() {
    const bool parts = tiling.parts > 1;
    cu::Entry entry(builder, location, parts ? partsName() : context.name, kThreads, kBlocks,
                    ir::ScheduleAttr(), kHeader);
    Value input =
        entry.pointer(context.rows->tensor.name, ir::tensorType(context.sum.rows).getElementType());
    Value output = parts ? entry.pointer(partialsName(), f32())
                         : entry.pointer(context.output->tensor.name, context.outputElement);
    Value terms = context.index ? listedTerms(entry) : stridedTerms(entry);
    Value map = parts ? denseRows() : rowMap(entry, kept, to, "results");
    int64_t toAccess = parts ? vector : family::widestAccess(to, vector);
    finish(entry, input, terms, output, map, tiling, kept.space, toAccess);
  }

  Value stridedTerms(cu::Entry& entry) {
    Value toRow = rowMap(entry, kept, from, "kept");
    Value toTerm = rowMap(entry, summed, this->terms, "summed");
    Value count = entry.size(KernelArgument::Kind::size, summed.space, "term_count");
    return builder.create<cu::StridedTermsOp>(named("terms"), termsType(), toRow, toTerm, count);
  }
  // --- lists of the rows of each segment ------------------------------------------------------

  std::string spansName() const { return context.name + "_spans"; }
  std::string rowsName() const { return context.name + "_rows"; }

  void emitLists() {
    SmallVector<Extent> segments{context.output->tensor.shape.front()};
    plan.workspaces.push_back({spansName(), DType::i32, 2, -1, {{segments[0]}}});
    plan.workspaces.push_back(
        {rowsName(), DType::i32, 1, -1, {{summed.space.begin(), summed.space.end()}}});
    cu::Entry entry(builder, location, context.name + "_lists", kListThreads, 1, ir::ScheduleAttr(),
                    "lists.cuh");
    Value index = entry.pointer(context.index->tensor.name,
                                ir::tensorType(context.sum.index).getElementType());
    Value spans = entry.pointer(spansName(), builder.getI32Type());
    Value list = entry.pointer(rowsName(), builder.getI32Type());
    const Access access = family::makeAccess(*context.index);
    const Walk walk{summed.space, family::mergeDimensions(summed.space, access)};
    Value map = rowMap(entry, walk, access, "index");
    Value rows = entry.size(KernelArgument::Kind::size, summed.space, "row_count");
    Value count = entry.size(KernelArgument::Kind::rows, segments, "segment_count");
    entry.waitThenRelease(context.programmatic);
    builder.create<cu::ListRowsOp>(location, index, map, rows, count, spans, list,
                                   context.sum.padding, kListThreads, kListSegments);
    entry.launch.grid = KernelLaunch::Grid::oneShot;
    entry.launch.rowsPerBlock = kListSegments;
    entry.launch.rows.factors.assign(segments.begin(), segments.end());
    entry.finish(plan);
  }

  Value listedTerms(cu::Entry& entry) {
    Value spans = entry.pointer(spansName(), builder.getI32Type());
    Value list = entry.pointer(rowsName(), builder.getI32Type());
    Value map = rowMap(entry, summed, this->terms, "rows");
    return builder.create<cu::ListedTermsOp>(named("terms"), termsType(), spans, list, map);
  }

  Type termsType() { return cu::TermsType::get(builder.getContext()); }

  /// Parts of a row lie one after another.
  void emitSumOfParts() {
    cu::Entry entry(builder, location, context.name, kThreads, kBlocks, ir::ScheduleAttr(),
                    kHeader);
    Value input = entry.pointer(partialsName(), f32());
    Value output = entry.pointer(context.output->tensor.name, context.outputElement);
    int64_t wide = 4;
    while (columns % wide != 0)
      wide /= 2;
    Tiling last = tilingOf({columns, wide, kept.count(), tiling.parts});
    last.parts = 1;
    Value toRow = denseRows(tiling.parts), toPart = denseRows();
    Value count = entry.size(KernelArgument::Kind::size, Extent{tiling.parts, -1}, "part_count");
    Value terms =
        builder.create<cu::StridedTermsOp>(named("terms"), termsType(), toRow, toPart, count);
    Value map = rowMap(entry, kept, to, "results");
    finish(entry, input, terms, output, map, last, kept.space, family::widestAccess(to, wide));
  }

  void finish(cu::Entry& entry, Value input, Value terms, Value output, Value map,
              const Tiling& how, ArrayRef<Extent> outputs, int64_t toAccess) {
    const int64_t width = how.lanes * how.vector;
    SmallVector<Extent> units(outputs);
    units.push_back({how.parts * ((columns + width - 1) / width), -1});
    Value count = entry.size(KernelArgument::Kind::rows, units, "unit_count");
    entry.waitThenRelease(context.programmatic);
    builder.create<cu::SumRowsOp>(location, input, terms, output, map, count, columns, how.lanes,
                                  how.vector, how.units, how.parts, kThreads, toAccess);
    entry.launch.grid = KernelLaunch::Grid::oneShot;
    entry.launch.rowsPerBlock = how.units;
    entry.launch.rows.factors.assign(units.begin(), units.end());
    entry.finish(plan);
  }

  // --- maps -----------------------------------------------------------------------------------

  Location named(const std::string& name) {
    return NameLoc::get(builder.getStringAttr(name), location);
  }

  /// Rows of `step` times the columns, one after another.
  Value denseRows(int64_t step = 1) {
    const std::string name = "rows_" + std::to_string(step * columns);
    return builder.create<cu::RowMapOp>(named(name), cu::MapType::get(builder.getContext()),
                                        ArrayRef<int64_t>{0}, ArrayRef<int64_t>{step * columns}, 1,
                                        ValueRange(), ValueRange());
  }

  const KernelContext& context;
  LaunchPlan& plan;
  OpBuilder builder;
  Location location;

  int64_t columns = 1, vector = 1; // vector: columns that one access moves
  Stride inColumn{1, {}, -1}, outColumn{1, {}, -1};
  Walk kept, summed;
  Access from, terms, to; // kept dimensions of the input, its summed ones, the result
  Tiling tiling;
};

} // namespace

void lowerKernel(const KernelContext& context, ModuleOp module, LaunchPlan& plan) {
  Lowering(context, module, plan).run();
}

} // namespace kiln::row_sums
