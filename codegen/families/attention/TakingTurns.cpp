// Lowers all gradients of heads without a bias: blocks that have keys take turns to add to the
// gradients of queries, in fp32 workspaces of whole tiles of queries.
#include "codegen/families/attention/Lowering.h"
#include "codegen/families/attention/TensorMaps.h"

using namespace mlir;

namespace kiln::attention {
namespace {

class LoweringTakingTurns : Lowering {
 public:
  LoweringTakingTurns(const KernelContext& context, ModuleOp module, LaunchPlan& plan)
      : Lowering(context, module, plan), s(context.schedule), turn(queriesOfTurn(s, context.facts)),
        perTurn(static_cast<int>(plan.kernels.size())) {}

  void run() {
    // As many as the blocks of the kernel that begins turns.
    numbers = add("_numbers", DType::f32, 2 * turn);
    turns = add("_turns", DType::i32, 1);
    sums = add("_sums", DType::f32, turn * program.width());
    emitBegin();
    emitGradients();
    emitFinish();
  }

 private:
  std::string add(const char* suffix, DType dtype, int64_t elements) {
    plan.workspaces.push_back({context.name + suffix, dtype, elements, perTurn, {}});
    return plan.workspaces.back().name;
  }
  /// A small kernel with a block for the queries of each turn, and threads of its own.
  std::unique_ptr<cu::Entry> beginPerTurn(const char* suffix, int64_t threads) {
    auto entry = std::make_unique<cu::Entry>(builder, location, context.name + suffix, threads, 1,
                                             ir::ScheduleAttr(), "attention_turns.cuh");
    entry->waitThenRelease(s.launch == Launch::programmatic);
    return entry;
  }
  void finishPerTurn(cu::Entry& entry) {
    finish(entry, {tiles(queryRows(), turn), each(order.sizes(order.all()))});
  }

  void emitBegin() {
    auto entry = beginPerTurn("_begin", turn);
    const SmallVector<Value> read = numbersOfQueries(*entry);
    Value queries = size(*entry, queryRows(), "query_count");
    Value to = entry->pointer(numbers, builder.getF32Type());
    Value counts = entry->pointer(turns, builder.getI32Type());
    builder.create<cu::BeginTurnsOp>(location, read, queries, to, counts, turn, s.queries);
    finishPerTurn(*entry);
  }
  void emitGradients() {
    const Registers registers = registersOf(s, context.facts);
    auto entry = begin(context.name, "attention_turns.cuh");
    Maps maps = mapsOf(*entry);
    addMap(*entry, maps, program.outputGradient,
           *tensorMapOf(buffer(program.outputGradient), s.queries));
    Value of = scores(*entry);
    const HeadOrder::Dimensions ofKeys = order.ofKeys();
    const unsigned first = program.firstOfKeys();
    const SmallVector<Value> stored{result(*entry, first, true, ofKeys),
                                    result(*entry, first + 1, true, ofKeys)};
    Value heads = entry->size(KernelArgument::Kind::size, order.sizes(ofKeys), "head_count");
    Value ofQueries = entry->pointer(numbers, builder.getF32Type());
    Value added = entry->pointer(sums, builder.getF32Type());
    Value counts = entry->pointer(turns, builder.getI32Type());
    builder.create<cu::DifferentiateInTurnsOp>(
        location, of, maps.maps, maps.inner, stored, heads, ofQueries, added, counts, element(),
        program.width(), program.valueWidth(), s.queries, s.keys, s.stages, bytes(), order.group(),
        registers.loading, registers.working);
    setRoles(*entry, registers);
    finish(*entry, {tiles(keyRows(), s.keys), each(order.sizes(ofKeys))});
  }
  void emitFinish() {
    auto entry = beginPerTurn("_finish", 2 * turn);
    Value to = result(*entry, 0, true);
    Value from = entry->pointer(sums, builder.getF32Type());
    Value queries = size(*entry, queryRows(), "query_count");
    Value keys = size(*entry, keyRows(), "key_count");
    builder.create<cu::FinishTurnsOp>(
        location, from, to, queries, keys, llvm::APFloat(static_cast<float>(program.form.scale)),
        program.width(), turn, turn / 16 * storedRowsBytes(context.facts));
    finishPerTurn(*entry);
  }

  const Schedule& s;
  const int64_t turn;               // queries of one
  const int perTurn;                // the kernel whose blocks are the turns of all heads
  std::string numbers, turns, sums; // workspaces
};

} // namespace

void lowerTakingTurns(const KernelContext& context, ModuleOp module, LaunchPlan& plan) {
  LoweringTakingTurns(context, module, plan).run();
}

} // namespace kiln::attention
