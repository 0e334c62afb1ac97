// See Lowering.h.
#include "codegen/families/attention/Lowering.h"

#include "codegen/families/attention/TensorMaps.h"
#include "dialect/Random.h"

using namespace mlir;
using kiln::cu::Walk;
using kiln::family::Access;
using kiln::family::Stride;

namespace kiln::attention {

static constexpr int64_t kFinishThreads = 256;

Lowering::Lowering(const KernelContext& context, ModuleOp module, LaunchPlan& plan)
    : context(context), program(context.program), plan(plan), builder(module.getContext()),
      location(program.op->getLoc()),
      rank(static_cast<size_t>(ir::tensorType(program.form.query).getRank())),
      order(program, context.inputs,
            program.kind == Kind::biasGradient || holdsBias(context.schedule)) {
  builder.setInsertionPointToEnd(module.getBody());
}

Walk Lowering::walkOf(ArrayRef<Extent> space, const Access& access) const {
  Walk walk{SmallVector<Extent>(space), {}};
  walk.runs = family::mergeDimensions(walk.space, access);
  return walk;
}

/// Rows of a tensor. `hasRows`: its last dimensions are rows and their elements, of which as many
/// as can be are moved at once; else its last dimension counts rows of one element.
Value Lowering::heads(cu::Entry& entry, const family::BufferInfo& buffer, Type element,
                      bool hasRows, bool stored, ArrayRef<size_t> chosen) {
  Access access = order.access(buffer, chosen);
  const size_t last = buffer.tensor.shape.size() - 1;
  const Stride row = strideAlong(buffer, hasRows ? last - 1 : last);
  if (hasRows)
    access.column = strideAlong(buffer, last);
  return headRows(entry, walkOf(order.sizes(chosen), access), access, row, element,
                  hasRows ? buffer.tensor.shape[last].size : 1, stored);
}

/// Rows of `width` elements, `row` apart in each head.
Value Lowering::headRows(cu::Entry& entry, const Walk& walk, const Access& access,
                         const Stride& row, Type element, int64_t width, bool stored) {
  const TensorInfo& tensor = access.buffer->tensor;
  Value map = cu::rowMap(entry, walk, access, tensor.name);
  int64_t widest = 1;
  if (width > 1) {
    Access all = access;
    all.leading.push_back(row);
    widest = family::widestAccess(
        all,
        std::min<int64_t>(16 / static_cast<int64_t>(sizeInBytes(tensor.dtype)), width & -width));
  }
  Value data = entry.pointer(tensor.name, element);
  Value step = cu::stride(entry, access, row);
  return builder.create<cu::HeadRowsOp>(location, cu::HeadsType::get(builder.getContext()), data,
                                        map, step, widest, stored);
}

Value Lowering::rowsOf(cu::Entry& entry, Value argument) {
  return heads(entry, buffer(argument), ir::tensorType(argument).getElementType(), true, false,
               order.all());
}
Value Lowering::numbersOf(cu::Entry& entry, Value argument) {
  return heads(entry, buffer(argument), builder.getF32Type(), false, false, order.all());
}
Value Lowering::result(cu::Entry& entry, unsigned number, bool hasRows, ArrayRef<size_t> chosen) {
  return heads(entry, output(number), elementOf(output(number).tensor.dtype), hasRows, true,
               chosen);
}

Type Lowering::elementOf(DType dtype) {
  switch (dtype) {
  case DType::bf16:
    return builder.getBF16Type();
  case DType::f16:
    return builder.getF16Type();
  default:
    return builder.getF32Type();
  }
}

/// Rows of the bias or the mask: a row of scores each.
Value Lowering::ofScores(cu::Entry& entry, Value argument) {
  return argument ? rowsOf(entry, argument) : Value();
}

Value Lowering::scores(cu::Entry& entry, bool hasBias) {
  const ir::AttentionForm& form = program.form;
  const ir::DropoutRule rule(form.seed ? form.p : 0.0);
  const Access numbering = order.numbering(buffer(form.query));
  Value map = cu::rowMap(entry, walkOf(order.sizes(order.all()), numbering), numbering, "head");
  const auto pointer = [&](Value argument, Type element) {
    return argument ? entry.pointer(buffer(argument).tensor.name, element) : Value();
  };
  const auto window = [](int64_t keys) { // sizes are below 2^31
    return std::min<int64_t>(keys, std::numeric_limits<int32_t>::max());
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
      queryStarts, keyStarts, starts, seed, offset, form.masksPlaces(), f32(form.scale),
      f32(form.softcap), form.causal, window(form.windowLeft), window(form.windowRight), rule.bits,
      static_cast<int64_t>(rule.least),
      f32(form.p < 1.0 ? rule.scale : 0.0)); // nothing is kept where p is 1
}

void Lowering::addMap(cu::Entry& entry, Maps& to, Value argument, const TensorMapInfo& map) {
  const std::string& name = buffer(argument).tensor.name;
  to.maps.push_back(entry.tensorMap(name, map));
  const bool isOne = map.dimensions[3].size.factors == std::vector<Extent>{Extent{1, -1}};
  to.inner.push_back(isOne ? entry.size(KernelArgument::Kind::size, Extent{0, -1}, "")
                           : entry.size(KernelArgument::Kind::size, map.dimensions[2].size.factors,
                                        name + "_inner"));
}

Lowering::Maps Lowering::mapsOf(cu::Entry& entry) {
  const Schedule& s = context.schedule;
  Maps maps;
  const std::pair<Value, int64_t> loaded[] = {
      {program.form.query, s.queries}, {program.form.key, s.keys}, {program.form.value, s.keys}};
  for (auto [argument, rows] : loaded)
    addMap(entry, maps, argument, *tensorMapOf(buffer(argument), rows));
  return maps;
}

Lowering::Sharers Lowering::sharersOf(cu::Entry& entry) {
  Value biases = entry.size(KernelArgument::Kind::size, ownBiases(), "bias_count");
  Value sharing = entry.size(KernelArgument::Kind::size, sharedSizes(), "sharing");
  return {biases, sharing};
}

std::unique_ptr<cu::Entry> Lowering::begin(const std::string& name, StringRef header) {
  auto entry = std::make_unique<cu::Entry>(builder, location, name,
                                           threadsOf(context.schedule, context.facts),
                                           context.schedule.blocks, context.scheduleAttr, header);
  entry->launch.schedule = toText(context.schedule.general());
  entry->waitThenRelease(context.schedule.launch == Launch::programmatic);
  return entry;
}

void Lowering::setRoles(cu::Entry& entry, const Registers& registers) const {
  const int computing = 4 * static_cast<int>(computingGroups(context.schedule, context.facts));
  entry.launch.roles = {{computing, static_cast<int>(registers.working)},
                        {4, static_cast<int>(registers.loading)}};
}

void Lowering::finish(cu::Entry& entry, ArrayRef<TileCount> tiles) {
  entry.launch.grid = KernelLaunch::Grid::tiles;
  entry.launch.tiles = {std::vector<TileCount>(tiles)};
  entry.finish(plan);
}

void Lowering::addWorkspace(const std::string& name, int64_t count, ArrayRef<Extent> each) {
  const bool isThere = llvm::any_of(
      plan.workspaces, [&](const WorkspaceInfo& workspace) { return workspace.name == name; });
  if (!isThere)
    plan.workspaces.push_back({name, DType::f32, count, -1, {{each.begin(), each.end()}}});
}

std::string Lowering::addPartials(int64_t count) {
  SmallVector<Extent> places = ownBiases();
  places.append({queryRows(), keyRows()});
  const std::string partials = context.workspaces + "_partials";
  addWorkspace(partials, count, places);
  return partials;
}

void Lowering::emitSumOfGroups(const std::string& partials, int64_t groups) {
  const SmallVector<Extent> biases = ownBiases();
  cu::Entry entry(builder, location, context.workspaces + "_sum", kFinishThreads, 1,
                  ir::ScheduleAttr(), "attention_bias_gradient.cuh");
  entry.waitThenRelease(context.schedule.launch == Launch::programmatic);
  const auto result = static_cast<unsigned>(program.biasGradient());
  const auto& shape = output(result).tensor.shape;
  Value from = entry.pointer(partials, builder.getF32Type());
  Value to = Lowering::result(entry, result, true, order.own());
  Value count = entry.size(KernelArgument::Kind::size, biases, "bias_count");
  Value queries = size(entry, queryRows(), "query_count");
  Value keys = size(entry, keyRows(), "key_count");
  Value rows = size(entry, shape[rank - 2], "row_count");
  Value columns = size(entry, shape[rank - 1], "column_count");
  builder.create<cu::FinishBiasOp>(location, from, to, count, queries, keys, rows, columns, groups,
                                   kFinishThreads);
  SmallVector<Extent> places(biases);
  places.append({shape[rank - 2], shape[rank - 1]});
  finish(entry, {{{std::vector<Extent>(places.begin(), places.end())}, kFinishThreads}});
}

} // namespace kiln::attention
