// Lowers kernels whose blocks hold the bias that heads share, or take heads that have none.
#include "codegen/families/attention/Lowering.h"
#include "codegen/families/attention/TensorMaps.h"

using namespace mlir;

namespace kiln::attention {
namespace {

class LoweringHoldingBias : Lowering {
 public:
  LoweringHoldingBias(const KernelContext& context, ModuleOp module, LaunchPlan& plan)
      : Lowering(context, module, plan) {}

  void run() {
    switch (program.kind) {
    case Kind::forward:
      if (context.schedule.products == Products::warps)
        return emitByWarps();
      return emitOverKeys<cu::AttendSharingOp>("attention_shared_bias.cuh");
    case Kind::queryGradient:
      return emitOverKeys<cu::DifferentiateQueriesSharingOp>("attention_shared_bias_backward.cuh");
    case Kind::keyGradient:
      return emitKeyGradient();
    case Kind::biasGradient:
      return emitBiasGradient();
    }
  }

 private:
  /// The kernel's beginning: maps (of a backward the output's gradient's beside the others), and
  /// scores without the bias. `biasRows`: of the bias's map.
  struct Holding {
    std::unique_ptr<cu::Entry> entry;
    Maps maps;
    Value scores;
  };
  Holding begin(StringRef header, int64_t biasRows) {
    Holding kernel{Lowering::begin(context.name, header), {}, {}};
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
    builder.create<Op>(
        location, kernel.scores, kernel.maps.maps, kernel.maps.inner, tensors, sharers.biases,
        sharers.sharing, more..., element(),
        program.form.bias ? elementOf(buffer(program.form.bias).tensor.dtype) : element(),
        program.width(), program.valueWidth(), s.queries, s.keys, s.stages, bytes(), order.group(),
        takesOneHead(context.facts) ? 0 : s.groups, s.side, slotsOf(s, context.facts),
        heldPlaces(s, context.facts), registers.loading, registers.working);
  }
  /// A block for each of `tiles` of each group of heads that share a bias; `ofNone`: also where
  /// there are no heads, for whose bias a gradient of zeros is stored.
  void finish(Holding& kernel, ArrayRef<TileCount> tiles, bool ofNone = false) {
    setRoles(*kernel.entry, registersOf(context.schedule, context.facts));
    SmallVector<TileCount> grid(tiles);
    if (takesOneHead(context.facts))
      return Lowering::finish(*kernel.entry, {tiles.front(), each(sharedSizes())});
    grid.append({each(ownBiases()), each(Extent{context.schedule.groups, -1})});
    if (!ofNone) {
      grid.push_back(each(sharedSizes()));
      grid.back().tile = int64_t(1) << 40; // one for all heads
    }
    Lowering::finish(*kernel.entry, grid);
  }

  /// Blocks have queries and walk over keys.
  template <class Op> void emitOverKeys(StringRef header) {
    const int64_t rows = context.schedule.queries;
    Holding kernel = begin(header, rows);
    SmallVector<Value> tensors;
    if (program.kind == Kind::forward)
      tensors = {outputRows(*kernel.entry), result(*kernel.entry, 1, false)};
    else {
      tensors = numbersOfQueries(*kernel.entry);
      tensors.push_back(result(*kernel.entry, 0, true));
    }
    create<Op>(kernel, tensors, sharersOf(*kernel.entry), context.schedule.bias == Bias::widened);
    finish(kernel, {tiles(queryRows(), rows)});
  }
  void emitByWarps() {
    const int64_t rows = context.schedule.queries;
    Holding kernel = begin("attention_shared_bias_warps.cuh", rows);
    SmallVector<Value> tensors = {outputRows(*kernel.entry)};
    tensors.push_back(result(*kernel.entry, 1, false));
    create<cu::AttendSharingByWarpsOp>(kernel, tensors, sharersOf(*kernel.entry));
    finish(kernel, {tiles(queryRows(), rows)});
  }
  void emitKeyGradient() {
    const Schedule& s = context.schedule;
    const bool sums = context.facts.sumsBias;
    const std::string partials = sums ? addPartials(s.groups * s.side) : "";
    const bool byWarps = s.products == Products::warps;
    Holding kernel = begin(byWarps                     ? "attention_shared_bias_all_warps.cuh"
                           : context.facts.sumsQueries ? "attention_shared_bias_all.cuh"
                                                       : "attention_shared_bias_keys.cuh",
                           kBiasBox);
    SmallVector<Value> tensors = numbersOfQueries(*kernel.entry);
    const unsigned ofKeys = program.firstOfKeys();
    for (unsigned number = context.facts.sumsQueries ? 0 : ofKeys; number < ofKeys + 2; ++number)
      tensors.push_back(result(*kernel.entry, number, true));
    const Sharers sharers = sharersOf(*kernel.entry);
    const int64_t cluster = clusterOf(s, context.facts);
    kernel.entry->launch.cluster = static_cast<int>(cluster);
    if (byWarps)
      create<cu::DifferentiateAllByWarpsOp>(kernel, tensors, sharers,
                                            kernel.entry->pointer(partials, builder.getF32Type()),
                                            1 /*tile*/, cluster);
    else if (context.facts.sumsQueries)
      emitAllGradients(kernel, tensors, sharers, partials);
    else if (sums)
      create<cu::DifferentiateKeysAndBiasSharingOp>(
          kernel, tensors, sharers, kernel.entry->pointer(partials, builder.getF32Type()),
          summedTiles(s, context.facts));
    else
      create<cu::DifferentiateKeysSharingOp>(kernel, tensors, sharers);
    finish(kernel, {tiles(keyRows(), s.keys)}, /*ofNone=*/sums);
    if (sums && !leavesKeys(context.facts))
      emitSumOfGroups(partials, s.groups * s.side);
  }
  void emitAllGradients(const Holding& kernel, ArrayRef<Value> tensors, const Sharers& sharers,
                        const std::string& partials) {
    const Schedule& s = context.schedule;
    const Facts& facts = context.facts;
    const int64_t cluster = clusterOf(s, facts);
    Value sums = kernel.entry->pointer(partials, builder.getF32Type());
    Value ofKeys;
    if (facts.isPart) {
      const std::string name = context.workspaces + "_keys";
      SmallVector<Extent> heads = ownBiases();
      heads.append(sharedSizes());
      addWorkspace(name,
                   cluster * s.keys * (paddedWidth(facts.width) + paddedWidth(facts.valueWidth)),
                   heads);
      ofKeys = kernel.entry->pointer(name, builder.getF32Type());
    }
    create<cu::DifferentiateAllSharingOp>(kernel, tensors, sharers, sums, ofKeys,
                                          summedTiles(s, facts), cluster, facts.firstQuery,
                                          resumesKeys(facts), leavesKeys(facts));
  }
  void emitBiasGradient() {
    const Schedule& s = context.schedule;
    const std::string partials = addPartials(s.groups * s.side);
    Holding kernel = begin("attention_shared_bias_backward.cuh", s.queries);
    const SmallVector<Value> tensors = numbersOfQueries(*kernel.entry);
    const Sharers sharers = sharersOf(*kernel.entry);
    Value sums = kernel.entry->pointer(partials, builder.getF32Type());
    create<cu::DifferentiateBiasSharingOp>(kernel, tensors, sharers, sums);
    finish(kernel, {tiles(keyRows(), s.keys), tiles(queryRows(), s.queries)}, /*ofNone=*/true);
    emitSumOfGroups(partials, s.groups * s.side);
  }
};

} // namespace

void lowerHoldingBias(const KernelContext& context, ModuleOp module, LaunchPlan& plan) {
  LoweringHoldingBias(context, module, plan).run();
}

} // namespace kiln::attention
