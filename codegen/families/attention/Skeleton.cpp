// See Skeleton.h. Heads are counted through the leading dimensions, the heads of keys, and the
// heads of queries that share one of these. A gradient of the bias counts those first that have a
// bias of their own, then those that share it.
#include "codegen/families/attention/Skeleton.h"

#include "codegen/exit/Maps.h"
#include "codegen/families/attention/TensorMaps.h"
#include "dialect/Random.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using kiln::cu::Walk;
using kiln::family::Access;
using kiln::family::Stride;

namespace kiln::attention {
namespace {

constexpr int64_t kFinishThreads = 256;

/// A dimension that heads are counted through.
struct HeadDimension {
  Extent extent;
  bool isShared; // by one bias
};

class Lowering {
 public:
  Lowering(const KernelContext& context, ModuleOp module, LaunchPlan& plan)
      : context(context), program(context.program), plan(plan), builder(module.getContext()),
        location(program.op->getLoc()) {
    builder.setInsertionPointToEnd(module.getBody());
    rank = static_cast<size_t>(ir::tensorType(program.form.query).getRank());
    group = program.heads() / program.keyHeads();
    findOrder();
  }

  void run() {
    switch (program.kind) {
    case Kind::forward:
      return emitForward();
    case Kind::queryGradient:
      return emitQueryGradient();
    case Kind::keyGradient:
      return emitKeyGradient();
    case Kind::biasGradient:
      return emitBiasGradient();
    }
  }

 private:
  // --- heads ----------------------------------------------------------------------------------

  const family::BufferInfo& buffer(Value argument) const {
    return *context.inputs[cast<BlockArgument>(argument).getArgNumber()];
  }
  const family::BufferInfo& output(unsigned result) const {
    return *context.outputs[program.outputs[result]];
  }

  /// The order in which dimensions are counted: leading ones, heads of keys, heads that share one.
  void findOrder() {
    const auto& shape = buffer(program.form.query).tensor.shape;
    for (size_t d = 0; d + 3 < rank; ++d)
      dimensions.push_back({shape[d], false});
    dimensions.push_back({{program.keyHeads(), -1}, false});
    dimensions.push_back({{group, -1}, false});
    for (size_t d = 0; d < dimensions.size(); ++d)
      order.push_back(d);
    if (program.kind != Kind::biasGradient)
      return;
    const auto& bias = buffer(program.form.bias).tensor.shape;
    for (size_t d = 0; d < dimensions.size(); ++d) {
      const Extent& own = bias[std::min(d, rank - 3)];
      dimensions[d].isShared = own.isStatic() && own.size == 1;
    }
    llvm::stable_sort(order, [&](size_t a, size_t b) {
      return !dimensions[a].isShared && dimensions[b].isShared;
    });
  }
  /// The sizes of the dimensions that `chosen` is true of, in order.
  template <class Chosen> SmallVector<Extent> sizes(Chosen chosen) const {
    SmallVector<Extent> sizes;
    for (size_t d : order)
      if (chosen(d))
        sizes.push_back(dimensions[d].extent);
    return sizes;
  }
  static bool any(size_t) { return true; }

  /// A head's first element in a buffer whose heads are the query's, or the key's, or broadcast.
  template <class Chosen = bool (*)(size_t)>
  Access headsOf(const family::BufferInfo& buffer, Chosen chosen = any) const {
    const Access all = family::makeAccess(buffer);
    const Extent& heads = buffer.tensor.shape[rank - 3];
    const bool ofKeys = heads.size == program.keyHeads() && group > 1;
    SmallVector<Stride> byDimension;
    for (size_t d = 0; d + 2 < rank; ++d) {
      const Extent& extent = buffer.tensor.shape[d];
      byDimension.push_back(extent.isStatic() && extent.size == 1 ? Stride{} : all.leading[d]);
    }
    Stride ofGroup = ofKeys ? Stride{} : byDimension.back();
    if (!ofKeys)
      byDimension.back().coefficient *= group;
    byDimension.push_back(ofGroup);
    Access access{&buffer, {}, {1, {}, -1}, {}};
    for (size_t d : order)
      if (chosen(d))
        access.leading.push_back(byDimension[d]);
    return access;
  }
  /// The step along dimension `d`; 0 where the buffer has size 1.
  static Stride strideAlong(const family::BufferInfo& buffer, size_t d) {
    const Extent& extent = buffer.tensor.shape[d];
    return extent.isStatic() && extent.size == 1 ? Stride{} : family::makeAccess(buffer).leading[d];
  }

  // --- arguments ------------------------------------------------------------------------------

  Walk walkOf(ArrayRef<Extent> space, const Access& access) const {
    Walk walk{SmallVector<Extent>(space), {}};
    walk.runs = family::mergeDimensions(walk.space, access);
    return walk;
  }

  /// Rows of a tensor. `hasRows`: its last dimensions are rows and their elements, of which as many
  /// as can be are moved at once; else its last dimension counts rows of one element.
  template <class Chosen = bool (*)(size_t)>
  Value heads(cu::Entry& entry, const family::BufferInfo& buffer, Type element, bool hasRows,
              bool stored = false, Chosen chosen = any) {
    Access access = headsOf(buffer, chosen);
    const size_t last = buffer.tensor.shape.size() - 1;
    const Stride row = strideAlong(buffer, hasRows ? last - 1 : last);
    if (hasRows)
      access.column = strideAlong(buffer, last);
    Value map = cu::rowMap(entry, walkOf(sizes(chosen), access), access, buffer.tensor.name);
    int64_t widest = 1;
    if (hasRows) {
      const int64_t width = buffer.tensor.shape[last].size;
      Access all = access;
      all.leading.push_back(row);
      widest = family::widestAccess(
          all, std::min<int64_t>(16 / static_cast<int64_t>(sizeInBytes(buffer.tensor.dtype)),
                                 width & -width));
    }
    Value data = entry.pointer(buffer.tensor.name, element);
    Value step = cu::stride(entry, access, row);
    return builder.create<cu::HeadRowsOp>(location, cu::HeadsType::get(builder.getContext()), data,
                                          map, step, widest, stored);
  }
  Value rowsOf(cu::Entry& entry, Value argument) {
    return heads(entry, buffer(argument), ir::tensorType(argument).getElementType(), true);
  }
  /// One fp32 a row.
  Value numbersOf(cu::Entry& entry, Value argument) {
    return heads(entry, buffer(argument), builder.getF32Type(), false);
  }
  template <class Chosen = bool (*)(size_t)>
  Value result(cu::Entry& entry, unsigned result, bool hasRows, Chosen chosen = any) {
    return heads(entry, output(result), elementOf(output(result).tensor.dtype), hasRows, true,
                 chosen);
  }
  Type elementOf(DType dtype) {
    switch (dtype) {
    case DType::bf16:
      return builder.getBF16Type();
    case DType::f16:
      return builder.getF16Type();
    default:
      return builder.getF32Type();
    }
  }
  Value size(cu::Entry& entry, const Extent& extent, const char* name) {
    return entry.size(KernelArgument::Kind::size, extent, name);
  }
  Extent queryRows() const { return buffer(program.form.query).tensor.shape[rank - 2]; }
  Extent keyRows() const { return buffer(program.form.key).tensor.shape[rank - 2]; }

  /// Rows of the bias or the mask: a row of scores each.
  Value ofScores(cu::Entry& entry, Value argument) {
    if (!argument)
      return {};
    return heads(entry, buffer(argument), ir::tensorType(argument).getElementType(), true);
  }

  Value scores(cu::Entry& entry) {
    const ir::AttentionForm& form = program.form;
    const ir::DropoutRule rule(form.seed ? form.p : 0.0);
    Access numbering{&buffer(form.query), {}, {1, {}, -1}, {}};
    for (size_t d : order) { // row-major in the order of the tensor
      Stride stride{1, {}, -1};
      for (size_t inner = d + 1; inner < dimensions.size(); ++inner)
        if (const Extent& extent = dimensions[inner].extent; extent.isStatic())
          stride.coefficient *= extent.size;
        else
          stride.symbols.push_back(extent.symbol);
      llvm::sort(stride.symbols);
      numbering.leading.push_back(stride);
    }
    Value map = cu::rowMap(entry, walkOf(sizes(any), numbering), numbering, "head");
    const auto pointer = [&](Value argument, Type element) {
      return argument ? entry.pointer(buffer(argument).tensor.name, element) : Value();
    };
    const auto f32 = [](double value) { return llvm::APFloat(static_cast<float>(value)); };
    const Type i32 = builder.getI32Type(), i64 = builder.getI64Type();
    // One after another: the kernel's arguments have the order of these calls.
    Value queries = size(entry, queryRows(), "query_count");
    Value keys = size(entry, keyRows(), "key_count");
    Value bias = ofScores(entry, form.bias);
    Value mask = ofScores(entry, form.mask);
    Value queryStarts = pointer(form.queryStarts, i32);
    Value keyStarts = pointer(form.keyStarts, i32);
    Value starts; // how many there are
    if (form.queryStarts)
      starts = size(entry, buffer(form.queryStarts).tensor.shape[0], "start_count");
    Value seed = pointer(form.seed, i64);
    Value offset = pointer(form.offset, i64);
    return builder.create<cu::ScoresOp>(
        location, cu::ScoresType::get(builder.getContext()), queries, keys, map, bias, mask,
        queryStarts, keyStarts, starts, seed, offset, f32(form.scale), f32(form.softcap),
        form.causal, form.windowLeft, form.windowRight, rule.bits,
        static_cast<int64_t>(rule.least),
        f32(form.p < 1.0 ? rule.scale : 0.0)); // nothing is kept where p is 1
  }

  // --- kernels --------------------------------------------------------------------------------

  std::unique_ptr<cu::Entry> begin(const std::string& name, StringRef header) {
    auto entry = std::make_unique<cu::Entry>(builder, location, name,
                                             threadsOf(context.schedule, context.facts),
                                             context.schedule.blocks, context.scheduleAttr, header);
    entry->launch.schedule = toText(context.schedule.general());
    entry->waitThenRelease(context.schedule.launch == Launch::programmatic);
    return entry;
  }
  /// A block for each tile of rows of each head.
  void finish(cu::Entry& entry, ArrayRef<TileCount> tiles) {
    entry.launch.grid = KernelLaunch::Grid::tiles;
    entry.launch.tiles = {std::vector<TileCount>(tiles)};
    entry.finish(plan);
  }
  static TileCount tiles(const Extent& extent, int64_t tile) { return {{{extent}}, tile}; }
  static TileCount each(ArrayRef<Extent> space) { return {{std::vector<Extent>(space)}, 1}; }
  int64_t bytes() const { return sharedBytes(context.schedule, context.facts); }
  Type element() const { return ir::tensorType(program.form.query).getElementType(); }

  void emitForward() {
    if (context.schedule.products == Products::warpgroups)
      return emitByWarpgroups();
    auto entry = begin(context.name, "attention.cuh");
    Value of = scores(*entry);
    const SmallVector<Value> tensors{
        rowsOf(*entry, program.form.query), rowsOf(*entry, program.form.key),
        rowsOf(*entry, program.form.value), result(*entry, 0, true), result(*entry, 1, false)};
    const Schedule& s = context.schedule;
    builder.create<cu::AttendOp>(location, of, tensors, element(), program.width(),
                                 program.valueWidth(), s.queries, s.keys, s.stages, bytes());
    finish(*entry, {tiles(queryRows(), s.queries), each(sizes(any))});
  }

  void emitByWarpgroups() {
    const Schedule& s = context.schedule;
    const Registers registers = registersOf(s);
    auto entry = begin(context.name, "attention_warpgroups.cuh");
    SmallVector<Value> maps, inner;
    const std::pair<Value, int64_t> loaded[] = {
        {program.form.query, s.queries}, {program.form.key, s.keys}, {program.form.value, s.keys}};
    for (auto [argument, rows] : loaded) {
      const TensorMapInfo map = *tensorMapOf(buffer(argument), rows);
      maps.push_back(entry->tensorMap(buffer(argument).tensor.name, map));
      inner.push_back(entry->size(KernelArgument::Kind::size, map.dimensions[2].size.factors,
                                  buffer(argument).tensor.name + "_inner"));
    }
    Value of = scores(*entry);
    const SmallVector<Value> stored{result(*entry, 0, true), result(*entry, 1, false)};
    builder.create<cu::AttendByWarpgroupsOp>(
        location, of, maps, inner, stored, element(), program.width(), program.valueWidth(),
        s.queries, s.keys, s.stages, bytes(), group, registers.loading, registers.working);
    const int groups = static_cast<int>(s.queries / 64);
    entry->launch.roles = {{4 * groups, static_cast<int>(registers.working)},
                           {4, static_cast<int>(registers.loading)}};
    finish(*entry, {tiles(queryRows(), s.queries), each(sizes(any))});
  }

  SmallVector<Value> operandsOfBackward(cu::Entry& entry) {
    return {rowsOf(entry, program.form.query), rowsOf(entry, program.form.key),
            rowsOf(entry, program.form.value), rowsOf(entry, program.outputGradient),
            numbersOf(entry, program.lse),     numbersOf(entry, program.delta)};
  }

  void emitQueryGradient() {
    auto entry = begin(context.name, "attention_backward.cuh");
    Value of = scores(*entry);
    SmallVector<Value> tensors = operandsOfBackward(*entry);
    tensors.push_back(result(*entry, 0, true));
    const Schedule& s = context.schedule;
    builder.create<cu::DifferentiateQueriesOp>(location, of, tensors, element(), program.width(),
                                               program.valueWidth(), s.queries, s.keys, s.stages,
                                               bytes());
    finish(*entry, {tiles(queryRows(), s.queries), each(sizes(any))});
  }

  void emitKeyGradient() {
    auto entry = begin(context.name, "attention_backward.cuh");
    Value of = scores(*entry);
    SmallVector<Value> tensors = operandsOfBackward(*entry);
    const size_t groupDimension = dimensions.size() - 1;
    const auto ofKeys = [&](size_t d) { return d != groupDimension; };
    const Facts& facts = context.facts;
    tensors.push_back(result(*entry, 0, true, ofKeys));
    tensors.push_back(facts.hasKeys && facts.hasValues ? result(*entry, 1, true, ofKeys)
                                                       : tensors.back());
    const Schedule& s = context.schedule;
    builder.create<cu::DifferentiateKeysOp>(location, of, tensors, element(), program.width(),
                                            program.valueWidth(), s.queries, s.keys, s.stages,
                                            bytes(), group, facts.hasKeys, facts.hasValues);
    finish(*entry, {tiles(keyRows(), s.keys), each(sizes(ofKeys))});
  }

  void emitBiasGradient() {
    const Schedule& s = context.schedule;
    const auto owns = [&](size_t d) { return !dimensions[d].isShared; };
    const auto shares = [&](size_t d) { return dimensions[d].isShared; };
    const SmallVector<Extent> biases = sizes(owns);
    SmallVector<Extent> places = biases;
    places.append({queryRows(), keyRows()});
    const std::string partials = context.name + "_partials";
    plan.workspaces.push_back(
        {partials, DType::f32, s.groups, -1, {{places.begin(), places.end()}}});

    auto entry = begin(context.name, "attention_backward.cuh");
    Value of = scores(*entry);
    const SmallVector<Value> tensors = operandsOfBackward(*entry);
    Value count = entry->size(KernelArgument::Kind::size, biases, "bias_count");
    Value sharing = entry->size(KernelArgument::Kind::size, sizes(shares), "sharing");
    Value sums = entry->pointer(partials, builder.getF32Type());
    builder.create<cu::DifferentiateBiasOp>(location, of, tensors, count, sharing, sums, element(),
                                            program.width(), program.valueWidth(), s.queries,
                                            s.keys, s.stages, bytes(), s.groups);
    finish(*entry, {tiles(keyRows(), s.keys), tiles(queryRows(), s.queries), each(biases),
                    each(Extent{s.groups, -1})});
    emitSumOfGroups(biases, partials, owns);
  }

  template <class Owns>
  void emitSumOfGroups(ArrayRef<Extent> biases, const std::string& partials, Owns owns) {
    cu::Entry entry(builder, location, context.name + "_sum", kFinishThreads, 1, ir::ScheduleAttr(),
                    "attention_backward.cuh");
    entry.waitThenRelease(context.schedule.launch == Launch::programmatic);
    const auto& shape = output(0).tensor.shape;
    Value from = entry.pointer(partials, builder.getF32Type());
    Value to = result(entry, 0, true, owns);
    Value count = entry.size(KernelArgument::Kind::size, biases, "bias_count");
    Value queries = size(entry, queryRows(), "query_count");
    Value keys = size(entry, keyRows(), "key_count");
    Value rows = size(entry, shape[rank - 2], "row_count");
    Value columns = size(entry, shape[rank - 1], "column_count");
    builder.create<cu::FinishBiasOp>(location, from, to, count, queries, keys, rows, columns,
                                     context.schedule.groups, kFinishThreads);
    SmallVector<Extent> places(biases);
    places.append({shape[rank - 2], shape[rank - 1]});
    finish(entry, {{{std::vector<Extent>(places.begin(), places.end())}, kFinishThreads}});
  }

  const KernelContext& context;
  const Program& program;
  LaunchPlan& plan;
  OpBuilder builder;
  Location location;

  size_t rank = 0;
  int64_t group = 1; // heads of queries that share one of keys
  SmallVector<HeadDimension> dimensions;
  SmallVector<size_t> order; // of dimensions, the outermost first
};

} // namespace

int64_t sharingOf(const Program& program, ArrayRef<const family::BufferInfo*> inputs) {
  const auto shapeOf = [&](Value argument) {
    return ArrayRef(inputs[cast<BlockArgument>(argument).getArgNumber()]->tensor.shape);
  };
  int64_t sharing = 1;
  for (auto [bias, query] :
       llvm::zip(shapeOf(program.form.bias), shapeOf(program.form.query).drop_back(2)))
    if (bias.isStatic() && bias.size == 1)
      sharing *= query.isStatic() ? query.size : 0;
  return sharing;
}

void lowerKernel(const KernelContext& context, ModuleOp module, LaunchPlan& plan) {
  Lowering(context, module, plan).run();
}

} // namespace kiln::attention
