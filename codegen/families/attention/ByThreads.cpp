// Lowers kernels in which a few threads have a row, of queries or of keys
// (device/attention_threads.cuh).
#include "codegen/families/attention/Lowering.h"

using namespace mlir;

namespace kiln::attention {
namespace {

class LoweringByThreads : Lowering {
 public:
  LoweringByThreads(const KernelContext& context, ModuleOp module, LaunchPlan& plan)
      : Lowering(context, module, plan) {}

  void run() {
    auto entry = begin(context.name, "attention_threads.cuh");
    const bool ofKeys = program.kind == Kind::keyGradient;
    const HeadOrder::Dimensions chosen = ofKeys ? order.ofKeys() : order.all();
    const Extent rows = ofKeys ? keyRows() : queryRows();
    Value of = scores(*entry);
    SmallVector<Extent> space = order.sizes(chosen);
    Value heads = entry->size(KernelArgument::Kind::size, space, "head_count");
    const SmallVector<Value> tensors = tensorsOf(*entry, chosen);
    const int64_t ofBlock = ownRows(context.schedule, context.facts);
    const int64_t lanes = lanesOfRow(context.facts);
    const Facts& facts = context.facts;
    if (ofKeys)
      builder.create<cu::DifferentiateKeysByThreadsOp>(
          location, of, heads, tensors, element(), program.width(), program.valueWidth(), ofBlock,
          lanes, order.group(), facts.hasKeys, facts.hasValues);
    else if (program.kind == Kind::queryGradient)
      builder.create<cu::DifferentiateQueriesByThreadsOp>(location, of, heads, tensors, element(),
                                                          program.width(), program.valueWidth(),
                                                          ofBlock, lanes);
    else
      builder.create<cu::AttendByThreadsOp>(location, of, heads, tensors, element(),
                                            program.width(), program.valueWidth(), ofBlock, lanes);
    space.push_back(rows);
    finish(*entry, {{{std::vector<Extent>(space.begin(), space.end())}, ofBlock}});
  }

 private:
  SmallVector<Value> tensorsOf(cu::Entry& entry, const HeadOrder::Dimensions& chosen) {
    if (program.kind == Kind::forward)
      return {rowsOf(entry, program.form.query), rowsOf(entry, program.form.key),
              rowsOf(entry, program.form.value), outputRows(entry), result(entry, 1, false)};
    SmallVector<Value> tensors = operandsOfBackward(entry);
    if (program.kind == Kind::queryGradient) {
      tensors.push_back(result(entry, 0, true));
      return tensors;
    }
    const Facts& facts = context.facts;
    const unsigned first = program.firstOfKeys();
    tensors.push_back(result(entry, first, true, chosen));
    tensors.push_back(facts.hasKeys && facts.hasValues ? result(entry, first + 1, true, chosen)
                                                       : tensors.back());
    return tensors;
  }
};

} // namespace

void lowerByThreads(const KernelContext& context, ModuleOp module, LaunchPlan& plan) {
  LoweringByThreads(context, module, plan).run();
}

} // namespace kiln::attention
