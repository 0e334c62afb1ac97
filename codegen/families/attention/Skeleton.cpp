// See Skeleton.h. Kernels whose blocks hold a bias: HoldingBias.cpp.
#include "codegen/families/attention/Skeleton.h"

#include "codegen/families/attention/Lowering.h"

using namespace mlir;

namespace kiln::attention {
namespace {

class LoweringOfHeads : Lowering {
 public:
  LoweringOfHeads(const KernelContext& context, ModuleOp module, LaunchPlan& plan)
      : Lowering(context, module, plan) {}

  void run() {
    switch (program.kind) {
    case Kind::forward:
      return emitForward();
    case Kind::queryGradient:
      return emitQueryGradient();
    case Kind::keyGradient:
      return hasHeads(context.schedule) ? emitHeads() : emitKeyGradient();
    case Kind::biasGradient:
      return emitBiasGradient();
    }
  }

 private:
  void emitForward() {
    if (context.schedule.products == Products::warpgroups)
      return emitByWarpgroups();
    const bool hasHeads = context.schedule.products == Products::heads;
    auto entry = begin(context.name, hasHeads ? "attention_heads.cuh" : "attention.cuh");
    Value of = scores(*entry);
    const SmallVector<Value> tensors{
        rowsOf(*entry, program.form.query), rowsOf(*entry, program.form.key),
        rowsOf(*entry, program.form.value), outputRows(*entry), result(*entry, 1, false)};
    const Schedule& s = context.schedule;
    const auto create = [&](auto op) {
      builder.create<decltype(op)>(location, of, tensors, element(), program.width(),
                                   program.valueWidth(), s.queries, s.keys, s.stages, bytes());
    };
    if (hasHeads)
      create(cu::AttendHeadsOp());
    else
      create(cu::AttendOp());
    finish(*entry, {tiles(queryRows(), s.queries), each(order.sizes(order.all()))});
  }

  void emitByWarpgroups() {
    const Schedule& s = context.schedule;
    const Registers registers = registersOf(s, context.facts);
    auto entry =
        begin(context.name, isResident(s) ? "attention_resident.cuh" : "attention_warpgroups.cuh");
    const Maps maps = mapsOf(*entry);
    Value of = scores(*entry);
    const SmallVector<Value> stored{outputRows(*entry), result(*entry, 1, false)};
    Value heads;
    if (isResident(s)) {
      heads = entry->size(KernelArgument::Kind::size, order.sizes(order.all()), "head_count");
      entry->launch.blocks = static_cast<int>(s.blocks);
    }
    builder.create<cu::AttendByWarpgroupsOp>(location, of, heads, maps.maps, maps.inner, stored,
                                             element(), program.width(), program.valueWidth(),
                                             s.queries, s.keys, s.stages, bytes(), order.group(),
                                             registers.loading, registers.working);
    setRoles(*entry, registers);
    finish(*entry, {tiles(queryRows(), s.queries), each(order.sizes(order.all()))});
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
    finish(*entry, {tiles(queryRows(), s.queries), each(order.sizes(order.all()))});
  }

  void emitKeyGradient() {
    auto entry = begin(context.name, "attention_backward.cuh");
    Value of = scores(*entry);
    SmallVector<Value> tensors = operandsOfBackward(*entry);
    const HeadOrder::Dimensions ofKeys = order.ofKeys();
    const Facts& facts = context.facts;
    const unsigned first = program.firstOfKeys();
    tensors.push_back(result(*entry, first, true, ofKeys));
    tensors.push_back(facts.hasKeys && facts.hasValues ? result(*entry, first + 1, true, ofKeys)
                                                       : tensors.back());
    const Schedule& s = context.schedule;
    builder.create<cu::DifferentiateKeysOp>(location, of, tensors, element(), program.width(),
                                            program.valueWidth(), s.queries, s.keys, s.stages,
                                            bytes(), order.group(), facts.hasKeys, facts.hasValues);
    finish(*entry, {tiles(keyRows(), s.keys), each(order.sizes(ofKeys))});
  }

  /// All gradients, a block for each head of keys.
  void emitHeads() {
    auto entry = begin(context.name, "attention_heads_backward.cuh");
    Value of = scores(*entry);
    SmallVector<Value> tensors = operandsOfBackward(*entry);
    const HeadOrder::Dimensions ofKeys = order.ofKeys();
    tensors.push_back(result(*entry, 0, true));
    for (unsigned number : {1, 2})
      tensors.push_back(result(*entry, number, true, ofKeys));
    const Schedule& s = context.schedule;
    builder.create<cu::DifferentiateHeadsOp>(location, of, tensors, element(), program.width(),
                                             program.valueWidth(), s.queries, s.keys, s.stages,
                                             bytes(), order.group());
    finish(*entry, {each(order.sizes(ofKeys))});
  }

  void emitBiasGradient() {
    const Schedule& s = context.schedule;
    const std::string partials = addPartials(s.groups);
    auto entry = begin(context.name, "attention_bias_gradient.cuh");
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
  for (const Part& part : partsOf(context.schedule, context.facts)) {
    Program program = context.program;
    program.kind = part.facts.kind;
    const std::string name = context.name + part.suffix;
    const KernelContext own{name,
                            part.facts.isPart ? context.workspaces : name,
                            program,
                            part.facts,
                            part.schedule,
                            context.inputs,
                            context.outputs,
                            context.scheduleAttr};
    if (holdsBias(part.schedule))
      lowerHoldingBias(own, module, plan);
    else if (takesTurns(part.schedule, part.facts))
      lowerTakingTurns(own, module, plan);
    else if (part.schedule.products == Products::threads)
      lowerByThreads(own, module, plan);
    else
      LoweringOfHeads(own, module, plan).run();
  }
}

} // namespace kiln::attention
