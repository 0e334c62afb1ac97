// See Skeleton.h. Where blocks take the heads that share a bias, those are counted first that have
// a bias of their own, then those that share it.
#include "codegen/families/attention/Skeleton.h"

#include "codegen/exit/Maps.h"
#include "codegen/families/attention/HeadOrder.h"
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

class Lowering {
 public:
  Lowering(const KernelContext& context, ModuleOp module, LaunchPlan& plan)
      : context(context), program(context.program), plan(plan), builder(module.getContext()),
        location(program.op->getLoc()),
        rank(static_cast<size_t>(ir::tensorType(program.form.query).getRank())),
        order(program, context.inputs,
              program.kind == Kind::biasGradient || context.schedule.bias == Bias::held) {
    builder.setInsertionPointToEnd(module.getBody());
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
  // --- arguments ------------------------------------------------------------------------------

  const family::BufferInfo& buffer(Value argument) const {
    return *context.inputs[cast<BlockArgument>(argument).getArgNumber()];
  }
  const family::BufferInfo& output(unsigned result) const {
    return *context.outputs[program.outputs[result]];
  }

  Walk walkOf(ArrayRef<Extent> space, const Access& access) const {
    Walk walk{SmallVector<Extent>(space), {}};
    walk.runs = family::mergeDimensions(walk.space, access);
    return walk;
  }

  /// Rows of a tensor. `hasRows`: its last dimensions are rows and their elements, of which as many
  /// as can be are moved at once; else its last dimension counts rows of one element.
  Value heads(cu::Entry& entry, const family::BufferInfo& buffer, Type element, bool hasRows,
              bool stored, ArrayRef<size_t> chosen) {
    Access access = order.access(buffer, chosen);
    const size_t last = buffer.tensor.shape.size() - 1;
    const Stride row = strideAlong(buffer, hasRows ? last - 1 : last);
    if (hasRows)
      access.column = strideAlong(buffer, last);
    Value map = cu::rowMap(entry, walkOf(order.sizes(chosen), access), access, buffer.tensor.name);
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
    return heads(entry, buffer(argument), ir::tensorType(argument).getElementType(), true, false,
                 order.all());
  }
  /// One fp32 a row.
  Value numbersOf(cu::Entry& entry, Value argument) {
    return heads(entry, buffer(argument), builder.getF32Type(), false, false, order.all());
  }
  Value result(cu::Entry& entry, unsigned result, bool hasRows, ArrayRef<size_t> chosen) {
    return heads(entry, output(result), elementOf(output(result).tensor.dtype), hasRows, true,
                 chosen);
  }
  Value result(cu::Entry& entry, unsigned number, bool hasRows) {
    return result(entry, number, hasRows, order.all());
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
    return argument ? rowsOf(entry, argument) : Value();
  }

  /// `hasBias`: false where the bias comes another way.
  Value scores(cu::Entry& entry, bool hasBias = true) {
    const ir::AttentionForm& form = program.form;
    const ir::DropoutRule rule(form.seed ? form.p : 0.0);
    const Access numbering = order.numbering(buffer(form.query));
    Value map = cu::rowMap(entry, walkOf(order.sizes(order.all()), numbering), numbering, "head");
    const auto pointer = [&](Value argument, Type element) {
      return argument ? entry.pointer(buffer(argument).tensor.name, element) : Value();
    };
    const auto f32 = [](double value) { return llvm::APFloat(static_cast<float>(value)); };
    const Type i32 = builder.getI32Type(), i64 = builder.getI64Type();
    // One after another: the kernel's arguments have the order of these calls.
    Value queries = size(entry, queryRows(), "query_count");
    Value keys = size(entry, keyRows(), "key_count");
    Value bias = hasBias ? ofScores(entry, form.bias) : Value();
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
        form.causal, form.windowLeft, form.windowRight, rule.bits, static_cast<int64_t>(rule.least),
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
    if (context.schedule.bias == Bias::held)
      return emitForwardHoldingBias();
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
    finish(*entry, {tiles(queryRows(), s.queries), each(order.sizes(order.all()))});
  }

  /// Tensor maps, and the heads of the third dimension of each; 0: all.
  struct Maps {
    SmallVector<Value> maps, inner;
  };
  void addMap(cu::Entry& entry, Maps& to, Value argument, const TensorMapInfo& map) {
    const std::string& name = buffer(argument).tensor.name;
    to.maps.push_back(entry.tensorMap(name, map));
    const bool isOne = map.dimensions[3].size.factors == std::vector<Extent>{Extent{1, -1}};
    to.inner.push_back(isOne ? entry.size(KernelArgument::Kind::size, Extent{0, -1}, "")
                             : entry.size(KernelArgument::Kind::size,
                                          map.dimensions[2].size.factors, name + "_inner"));
  }
  /// Of query, key and value.
  Maps mapsOf(cu::Entry& entry) {
    const Schedule& s = context.schedule;
    Maps maps;
    const std::pair<Value, int64_t> loaded[] = {
        {program.form.query, s.queries}, {program.form.key, s.keys}, {program.form.value, s.keys}};
    for (auto [argument, rows] : loaded)
      addMap(entry, maps, argument, *tensorMapOf(buffer(argument), rows));
    return maps;
  }
  /// Warps that compute, and the warpgroup that loads.
  void setRoles(cu::Entry& entry, const Registers& registers) const {
    const int computing = 4 * static_cast<int>(computingGroups(context.schedule, context.facts));
    entry.launch.roles = {{computing, static_cast<int>(registers.working)},
                          {4, static_cast<int>(registers.loading)}};
  }
  void emitByWarpgroups() {
    const Schedule& s = context.schedule;
    const Registers registers = registersOf(s, context.facts);
    auto entry = begin(context.name, "attention_warpgroups.cuh");
    const Maps maps = mapsOf(*entry);
    Value of = scores(*entry);
    const SmallVector<Value> stored{result(*entry, 0, true), result(*entry, 1, false)};
    builder.create<cu::AttendByWarpgroupsOp>(location, of, maps.maps, maps.inner, stored, element(),
                                             program.width(), program.valueWidth(), s.queries,
                                             s.keys, s.stages, bytes(), order.group(),
                                             registers.loading, registers.working);
    setRoles(*entry, registers);
    finish(*entry, {tiles(queryRows(), s.queries), each(order.sizes(order.all()))});
  }

  SmallVector<Extent> ownBiases() const { return order.sizes(order.own()); }
  SmallVector<Extent> sharedSizes() const { return order.sizes(order.shared()); }
  /// How many biases there are, and heads that share each.
  struct Sharers {
    Value biases, sharing;
  };
  Sharers sharersOf(cu::Entry& entry) {
    Value biases = entry.size(KernelArgument::Kind::size, ownBiases(), "bias_count");
    Value sharing = entry.size(KernelArgument::Kind::size, sharedSizes(), "sharing");
    return {biases, sharing};
  }

  /// The kernel's beginning: maps (of a backward the output's gradient's beside the others), scores
  /// without the bias, and how many heads share it. `biasRows`: of the bias's map.
  struct Holding {
    std::unique_ptr<cu::Entry> entry;
    Maps maps;
    Value scores;
  };
  Holding beginHoldingBias(StringRef header, int64_t biasRows) {
    Holding kernel{begin(context.name, header), {}, {}};
    kernel.maps = mapsOf(*kernel.entry);
    if (program.outputGradient)
      addMap(*kernel.entry, kernel.maps, program.outputGradient,
             *tensorMapOf(buffer(program.outputGradient), context.schedule.queries));
    if (program.form.bias)
      addMap(*kernel.entry, kernel.maps, program.form.bias,
             *tensorMapOf(buffer(program.form.bias), biasRows, kBiasSwizzle));
    kernel.scores = scores(*kernel.entry, /*hasBias=*/false);
    return kernel;
  }
  /// `tensors`, and last `more`: what the operation takes beside maps.
  template <class Op, class... More>
  void create(const Holding& kernel, ArrayRef<Value> tensors, const Sharers& sharers,
              More... more) {
    const Schedule& s = context.schedule;
    const Registers registers = registersOf(s, context.facts);
    builder.create<Op>(location, kernel.scores, kernel.maps.maps, kernel.maps.inner, tensors,
                       sharers.biases, sharers.sharing, more..., element(),
                       program.form.bias ? elementOf(buffer(program.form.bias).tensor.dtype)
                                         : element(),
                       program.width(), program.valueWidth(), s.queries, s.keys, s.stages, bytes(),
                       order.group(), s.groups, s.side, slotsOf(s, context.facts),
                       heldPlaces(s, context.facts), registers.loading, registers.working);
  }
  /// A block for each of `tiles` of each group of heads that share a bias; `ofNone`: also where
  /// there are no heads, for whose bias a gradient of zeros is stored.
  void finishHolding(Holding& kernel, ArrayRef<TileCount> tiles, bool ofNone = false) {
    setRoles(*kernel.entry, registersOf(context.schedule, context.facts));
    SmallVector<TileCount> grid(tiles);
    grid.append({each(ownBiases()), each(Extent{context.schedule.groups, -1})});
    if (!ofNone) {
      grid.push_back(each(sharedSizes()));
      grid.back().tile = int64_t(1) << 40; // one for all heads
    }
    finish(*kernel.entry, grid);
  }
  void emitForwardHoldingBias() {
    const int64_t rows = context.schedule.queries;
    Holding kernel = beginHoldingBias("attention_shared_bias.cuh", rows);
    const SmallVector<Value> tensors{result(*kernel.entry, 0, true),
                                     result(*kernel.entry, 1, false)};
    create<cu::AttendSharingOp>(kernel, tensors, sharersOf(*kernel.entry));
    finishHolding(kernel, {tiles(queryRows(), rows)});
  }
  void emitQueryGradientHoldingBias() {
    const int64_t rows = context.schedule.queries;
    Holding kernel = beginHoldingBias("attention_shared_bias_backward.cuh", rows);
    const SmallVector<Value> tensors{numbersOf(*kernel.entry, program.lse),
                                     numbersOf(*kernel.entry, program.delta),
                                     result(*kernel.entry, 0, true)};
    create<cu::DifferentiateQueriesSharingOp>(kernel, tensors, sharersOf(*kernel.entry));
    finishHolding(kernel, {tiles(queryRows(), rows)});
  }
  void emitKeyGradientHoldingBias() {
    Holding kernel = beginHoldingBias("attention_shared_bias_keys.cuh", kBiasBox);
    const SmallVector<Value> tensors{
        numbersOf(*kernel.entry, program.lse), numbersOf(*kernel.entry, program.delta),
        result(*kernel.entry, 0, true), result(*kernel.entry, 1, true)};
    create<cu::DifferentiateKeysSharingOp>(kernel, tensors, sharersOf(*kernel.entry));
    finishHolding(kernel, {tiles(keyRows(), context.schedule.keys)});
  }
  void emitBiasGradientHoldingBias() {
    const Schedule& s = context.schedule;
    const std::string partials = addPartials(s.groups * s.side);
    Holding kernel = beginHoldingBias("attention_shared_bias_backward.cuh", s.queries);
    const SmallVector<Value> tensors{numbersOf(*kernel.entry, program.lse),
                                     numbersOf(*kernel.entry, program.delta)};
    const Sharers sharers = sharersOf(*kernel.entry);
    Value sums = kernel.entry->pointer(partials, builder.getF32Type());
    create<cu::DifferentiateBiasSharingOp>(kernel, tensors, sharers, sums);
    finishHolding(kernel, {tiles(keyRows(), s.keys), tiles(queryRows(), s.queries)},
                  /*ofNone=*/true);
    emitSumOfGroups(partials, s.groups * s.side);
  }

  SmallVector<Value> operandsOfBackward(cu::Entry& entry) {
    return {rowsOf(entry, program.form.query), rowsOf(entry, program.form.key),
            rowsOf(entry, program.form.value), rowsOf(entry, program.outputGradient),
            numbersOf(entry, program.lse),     numbersOf(entry, program.delta)};
  }

  void emitQueryGradient() {
    if (context.schedule.bias == Bias::held)
      return emitQueryGradientHoldingBias();
    auto entry = begin(context.name, "attention_backward.cuh");
    Value of = scores(*entry);
    SmallVector<Value> tensors = operandsOfBackward(*entry);
    tensors.push_back(result(*entry, 0, true));
    const Schedule& s = context.schedule;
    builder.create<cu::DifferentiateQueriesOp>(location, of, tensors, element(), program.width(),
                                               program.valueWidth(), s.queries, s.keys, s.stages,
                                               bytes());
    finish(*entry, {tiles(queryRows(), s.queries), each(order.sizes(order.all()))});
  }

  void emitKeyGradient() {
    if (context.schedule.bias == Bias::held)
      return emitKeyGradientHoldingBias();
    auto entry = begin(context.name, "attention_backward.cuh");
    Value of = scores(*entry);
    SmallVector<Value> tensors = operandsOfBackward(*entry);
    const HeadOrder::Dimensions ofKeys = order.ofKeys();
    const Facts& facts = context.facts;
    tensors.push_back(result(*entry, 0, true, ofKeys));
    tensors.push_back(facts.hasKeys && facts.hasValues ? result(*entry, 1, true, ofKeys)
                                                       : tensors.back());
    const Schedule& s = context.schedule;
    builder.create<cu::DifferentiateKeysOp>(location, of, tensors, element(), program.width(),
                                            program.valueWidth(), s.queries, s.keys, s.stages,
                                            bytes(), order.group(), facts.hasKeys, facts.hasValues);
    finish(*entry, {tiles(keyRows(), s.keys), each(order.sizes(ofKeys))});
  }

  /// A workspace of so many partial sums of each place of each bias.
  std::string addPartials(int64_t count) {
    SmallVector<Extent> places = ownBiases();
    places.append({queryRows(), keyRows()});
    const std::string partials = context.name + "_partials";
    plan.workspaces.push_back({partials, DType::f32, count, -1, {{places.begin(), places.end()}}});
    return partials;
  }

  void emitBiasGradient() {
    if (context.schedule.bias == Bias::held)
      return emitBiasGradientHoldingBias();
    const Schedule& s = context.schedule;
    const std::string partials = addPartials(s.groups);
    auto entry = begin(context.name, "attention_backward.cuh");
    Value of = scores(*entry);
    const SmallVector<Value> tensors = operandsOfBackward(*entry);
    const Sharers sharers = sharersOf(*entry);
    Value sums = entry->pointer(partials, builder.getF32Type());
    builder.create<cu::DifferentiateBiasOp>(location, of, tensors, sharers.biases, sharers.sharing,
                                            sums, element(), program.width(), program.valueWidth(),
                                            s.queries, s.keys, s.stages, bytes(), s.groups);
    finish(*entry, {tiles(keyRows(), s.keys), tiles(queryRows(), s.queries), each(ownBiases()),
                    each(Extent{s.groups, -1})});
    emitSumOfGroups(partials, s.groups);
  }

  void emitSumOfGroups(const std::string& partials, int64_t groups) {
    const SmallVector<Extent> biases = ownBiases();
    cu::Entry entry(builder, location, context.name + "_sum", kFinishThreads, 1, ir::ScheduleAttr(),
                    "attention_backward.cuh");
    entry.waitThenRelease(context.schedule.launch == Launch::programmatic);
    const auto& shape = output(0).tensor.shape;
    Value from = entry.pointer(partials, builder.getF32Type());
    Value to = result(entry, 0, true, order.own());
    Value count = entry.size(KernelArgument::Kind::size, biases, "bias_count");
    Value queries = size(entry, queryRows(), "query_count");
    Value keys = size(entry, keyRows(), "key_count");
    Value rows = size(entry, shape[rank - 2], "row_count");
    Value columns = size(entry, shape[rank - 1], "column_count");
    builder.create<cu::FinishBiasOp>(location, from, to, count, queries, keys, rows, columns,
                                     groups, kFinishThreads);
    SmallVector<Extent> places(biases);
    places.append({shape[rank - 2], shape[rank - 1]});
    finish(entry, {{{std::vector<Extent>(places.begin(), places.end())}, kFinishThreads}});
  }

  const KernelContext& context;
  const Program& program;
  LaunchPlan& plan;
  OpBuilder builder;
  Location location;

  size_t rank;
  HeadOrder order;
};

} // namespace

int64_t sharingOf(const Program& program, ArrayRef<const family::BufferInfo*> inputs) {
  const HeadOrder order(program, inputs, /*byBias=*/true);
  int64_t sharing = 1;
  for (const Extent& extent : order.sizes(order.shared()))
    sharing *= extent.isStatic() ? extent.size : 0;
  return sharing;
}

void lowerKernel(const KernelContext& context, ModuleOp module, LaunchPlan& plan) {
  Lowering(context, module, plan).run();
}

} // namespace kiln::attention
