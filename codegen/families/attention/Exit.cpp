// How the operations of attention print themselves.
#include "codegen/exit/Exit.h"
#include "codegen/families/attention/TensorMaps.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cu;

static std::string number(int64_t value, const char* what) {
  return std::to_string(value) + " /*" + what + "*/";
}
static std::string literal(const APFloat& value) {
  llvm::SmallString<32> text;
  value.toString(text, 0, 0, false);
  if (StringRef(text).find_first_of(".eE") == StringRef::npos)
    text += ".0";
  return std::string(text) + "f";
}

void HeadRowsOp::emit(Emitter& e) {
  e.line("const auto " + e.declare(getHeads(), e.name(getData()) + "_rows") + " = head_rows<" +
         std::to_string(getAccess()) + ">(" + e.name(getData()) + ", " + e.name(getMap()) + ", " +
         e.expression(getStride()) + ");");
}
bool HeadRowsOp::stores(Value pointer) {
  return getStored() && getData() == pointer;
}
void RandomHeadsOp::emit(Emitter& e) {
  const auto word = [&](Value pointer) { return "u64(load_global<i64>(" + e.name(pointer) + "))"; };
  e.line("const auto " + e.declare(getHeads(), "random") + " = random_heads<" +
         e.scalarType(getElement()) + ", " + number(getBits(), "bits") + ", " +
         (getIsEven() ? "true" : "false") + " /*is even*/>(" + e.name(getMap()) + ", " +
         e.expression(getStride()) + ", " + word(getSeed()) + ", " + word(getOffset()) + ");");
}

/// A function of neighbours, which gives back what it was handed with other elements.
void ComputedRowsOp::emit(Emitter& e) {
  e.location(*this);
  const std::string o = e.fresh("o"), head = e.fresh("head"), row = e.fresh("row"),
                    column = e.fresh("column"), count = e.fresh("count");
  e.open("const auto " + e.declare(getHeads(), "computed") + " = computed_rows(" +
         e.name(getRows()) + ", [=](auto " + o + ", u32 " + head + ", int " + row + ", int " +
         column + ")");
  e.line("constexpr int " + count + " = count_of<decltype(" + o + ")>;");
  Block& block = getBody().front();
  e.alias(block.getArgument(0),
          getElement().isF32() ? o + "[i]" : e.scalarType(getElement()) + "(" + o + "[i])");
  for (auto [input, argument] : llvm::zip_equal(getInputs(), block.getArguments().drop_front())) {
    const std::string vector = e.fresh(e.name(input) + "_c");
    e.line("const auto " + vector + " = neighbours<" + count + ">(" + e.name(input) + ", " + head +
           ", " + row + ", " + column + ");");
    e.alias(argument,
            argument.getType().isInteger(1) ? "(" + vector + "[i] != 0)" : vector + "[i]");
  }
  e.unrolled("for (int i = 0; i < " + count + "; ++i)");
  e.aliasTarget(&block.back(), o + "[i]");
  e.block(block);
  e.close();
  e.line("return " + o + ";");
  e.close(");");
}
void GiveOp::emit(Emitter& e) {
  e.line(e.target(*this) + " = " + e.expression(getValue()) + ";");
}
void TwoResultsOp::emit(Emitter& e) {
  e.line("const auto " + e.declare(getHeads(), "results") + " = two_results(" + e.name(getFirst()) +
         ", " + e.name(getSecond()) + ");");
}

void ScoresOp::emit(Emitter& e) {
  const char* causal[] = {"Causal::none", "Causal::first", "Causal::last"};
  const std::string sight = e.fresh("sight"), drop = e.fresh("dropout");
  const bool packed = static_cast<bool>(getQueryStarts());
  e.line("const Sight<" + std::string(packed ? "PackedSequences" : "OneSequence") + "> " + sight +
         "{" + e.expression(getQueries()) + ", " + e.expression(getKeys()) + ", " +
         causal[static_cast<int>(getCausal())] + ", " + number(getWindowLeft(), "left") + ", " +
         number(getWindowRight(), "right") + ", {" +
         (packed ? e.name(getQueryStarts()) + ", " + e.name(getKeyStarts()) + ", " +
                       e.expression(getStartCount())
                 : "") +
         "}};");
  if (getSeed())
    e.line("const Dropout<" + number(getBits(), "bits") + "> " + drop + "{u64(load_global<i64>(" +
           e.name(getSeed()) + ")), u64(load_global<i64>(" + e.name(getOffset()) + ")), " +
           number(getLeast(), "least") + ", " + literal(getKept()) + " /*scale*/};");
  else
    e.line("const NoDropout " + drop + "{};");
  const auto tensor = [&](Value heads) { return heads ? e.name(heads) : "NoTensor{}"; };
  const std::string mask =
      getMasksPlaces() ? "mask_of_places(" + tensor(getMask()) + ")" : tensor(getMask());
  e.line("const auto " + e.declare(getScores(), "scores") + " = make_scores(" + sight + ", " +
         literal(getScale()) + " /*scale*/, " + literal(getSoftcap()) + " /*softcap*/, " +
         tensor(getBias()) + ", " + mask + ", " + drop + ", " + e.name(getHeads()) + ");");
}

/// "using Tile = AttentionTile<...>;", and the bytes of it held against what was asked for.
template <class Op>
static void emitTile(Emitter& e, Op op, const char* tile, const std::string& flags,
                     const std::string& bytes) {
  e.location(op);
  e.line("using Tile = " + std::string(tile) + "<" + e.memoryType(op.getElement()) + ", " +
         number(op.getWidth(), "width") + ", " + number(op.getValueWidth(), "value width") + ", " +
         number(op.getQueries(), "queries") + ", " + number(op.getKeys(), "keys") + ", " +
         number(op.getStages(), "stages") + flags + ">;");
  assertBytes(e, op, bytes);
}
template <class Op>
static void emitCall(Emitter& e, Op op, const char* function, const std::string& numbers,
                     const std::string& last = "") {
  std::string text =
      std::string(function) + "(Tile(), " + sharedAt(op) + ", " + e.name(op.getScores()) + numbers;
  for (Value heads : op.getOf())
    text += ", " + e.name(heads);
  e.line(text + last + ");");
}
/// The element type of what is stored: of several results the widest.
static Type storedElement(Value heads) {
  if (auto computed = heads.getDefiningOp<ComputedRowsOp>())
    return storedElement(computed.getRows());
  if (auto two = heads.getDefiningOp<TwoResultsOp>()) {
    const Type first = storedElement(two.getFirst()), second = storedElement(two.getSecond());
    return first.getIntOrFloatBitWidth() > second.getIntOrFloatBitWidth() ? first : second;
  }
  return heads.getDefiningOp<HeadRowsOp>().getData().getType().getElement();
}
static std::string storedType(Emitter& e, Value heads) {
  return e.memoryType(storedElement(heads));
}

void AttendOp::emit(Emitter& e) {
  emitTile(e, *this, "AttentionTile", "",
           "attend_bytes<Tile, " + storedType(e, getOf()[3]) + ">()");
  emitCall(e, *this, "attend", "");
}
/// "function(Tile(), swizzled_memory(), scores...", the maps (of query, key and value, and what has
/// a head of its own for each of its heads), and where results go.
template <class Op>
static void emitCallOfWarpgroups(Emitter& e, Op op, const std::string& function,
                                 const std::string& numbers, const std::string& last = "",
                                 const std::string& lastMap = "") {
  std::string text = function + "(Tile(), swizzled_memory(), " + e.name(op.getScores()) + numbers;
  for (auto [i, map] : llvm::enumerate(op.getMaps()))
    text += ", MappedHeads{" + e.name(map) + ", " + e.expression(op.getInner()[i]) + ", " +
            std::to_string(i == 1 || i == 2 ? op.getSharedBy() : 1) + "}";
  text += lastMap;
  for (Value heads : op.getOf())
    text += ", " + e.name(heads);
  e.line(text + last + ");");
}

void AttendByWarpgroupsOp::emit(Emitter& e) {
  const std::string function = getHeads() ? "attend_resident" : "attend_by_warpgroups";
  emitTile(e, *this, "WarpgroupTile", "",
           function + "_bytes<Tile, " + storedType(e, getOf()[0]) + ">()");
  emitCallOfWarpgroups(e, *this,
                       function + "<" + number(getLoading(), "loading") + ", " +
                           number(getWorking(), "working") + ">",
                       getHeads() ? ", " + e.expression(getHeads()) : "");
}
static std::string flag(bool value, const char* name) {
  return std::string(value ? "true" : "false") + " /*" + name + "*/";
}
/// `tile`: "using Tile = ..." of the numbers that all have, and `more`. `last`: what follows in the
/// call, `lastNumber` in the function's own numbers.
template <class Op>
static void emitSharing(Emitter& e, Op op, const char* tile, const std::string& more,
                        const std::string& bytes, const std::string& function,
                        const std::string& last = "", const std::string& lastNumber = "") {
  emitTile(e, op, tile,
           ", " + number(op.getSide(), "side by side") + ", " + number(op.getSlots(), "slots") +
               ", " + number(op.getHeld(), "held") + more,
           bytes);
  emitCallOfWarpgroups(e, op,
                       function + "<" + e.memoryType(op.getBiasElement()) + ", " +
                           number(op.getGroups(), "groups") + ", " +
                           number(op.getLoading(), "loading") + ", " +
                           number(op.getWorking(), "working") + lastNumber + ">",
                       ", " + e.expression(op.getBiases()) + ", " + e.expression(op.getSharing()),
                       last, op.getHeld() == 0 ? ", NoBias{}" : "");
}
void AttendSharingOp::emit(Emitter& e) {
  emitSharing(e, *this, "SharedBiasTile",
              ", false /*differentiates*/, " + flag(getWidens(), "widens"),
              "shared_bias_bytes<Tile, " + storedType(e, getOf()[0]) + ", Tile::row_value_width>()",
              "attend_sharing");
}
void AttendSharingByWarpsOp::emit(Emitter& e) {
  emitSharing(e, *this, "WarpsBiasTile", "", "shared_bias_bytes<Tile, float, 0>()",
              "attend_sharing_by_warps");
}
void DifferentiateQueriesSharingOp::emit(Emitter& e) {
  emitSharing(e, *this, "SharedBiasTile",
              ", true /*differentiates*/, " + flag(getWidens(), "widens"),
              "shared_bias_bytes<Tile, " + storedType(e, getOf()[2]) + ", Tile::row_width>()",
              "differentiate_queries_sharing");
}
void DifferentiateKeysSharingOp::emit(Emitter& e) {
  emitSharing(e, *this, "SharedBiasKeyTile", "",
              "shared_bias_key_bytes<Tile, " + storedType(e, getOf()[2]) + ", " +
                  storedType(e, getOf()[3]) + ">()",
              "differentiate_keys_sharing", "",
              ", " + number(attention::kBiasBox, "rows of the bias's box"));
}
void DifferentiateKeysAndBiasSharingOp::emit(Emitter& e) {
  emitSharing(e, *this, "SharedBiasSumTile", ", " + number(getTiles(), "tiles of queries"),
              "shared_bias_key_bytes<Tile, " + storedType(e, getOf()[2]) + ", " +
                  storedType(e, getOf()[3]) + ">()",
              "differentiate_keys_sharing", ", BiasSums<Tile>(" + e.name(getPartials()) + ")",
              ", " + number(attention::kBiasBox, "rows of the bias's box"));
}
/// All gradients, by a tile and a function of their own. `first` and `parts` are of a kernel that
/// has some of the queries.
template <class Op>
static void emitAllGradients(Emitter& e, Op op, const char* tile, const std::string& bytes,
                             const char* function, const std::string& first = "",
                             const std::string& parts = "") {
  emitSharing(e, op, tile,
              ", " + number(op.getTiles(), "tiles of queries") + ", " +
                  number(op.getCluster(), "blocks of a cluster") + first,
              bytes, function, ", " + e.name(op.getPartials()) + parts,
              ", " + number(attention::kBiasBox, "rows of the bias's box"));
}
void DifferentiateAllSharingOp::emit(Emitter& e) {
  const std::string parts = getOfKeys()
                                ? ", KeysInParts<Tile, " + flag(getResumes(), "resumes") + ", " +
                                      flag(getLeaves(), "leaves") + ">{" + e.name(getOfKeys()) + "}"
                                : "";
  emitAllGradients(e, *this, getOfKeys() ? "SharedBiasPartTile" : "SharedBiasAllTile",
                   "shared_bias_all_bytes<Tile, " + storedType(e, getOf()[2]) + ", " +
                       storedType(e, getOf()[3]) + ", " + storedType(e, getOf()[4]) + ">()",
                   "differentiate_all_sharing",
                   getOfKeys() ? ", " + number(getFirst(), "first query") : "", parts);
}
void DifferentiateAllByWarpsOp::emit(Emitter& e) {
  emitAllGradients(e, *this, "WarpsAllTile", "all_by_warps_bytes<Tile>()",
                   "differentiate_all_by_warps");
}
void DifferentiateBiasSharingOp::emit(Emitter& e) {
  emitSharing(e, *this, "SharedBiasTile", ", true /*differentiates*/, false /*widens*/",
              "shared_bias_bytes<Tile, float, 0>()", "differentiate_bias_sharing",
              ", " + e.name(getPartials()));
}
void DifferentiateInTurnsOp::emit(Emitter& e) {
  emitTile(e, *this, "TurnsTile", "",
           "differentiate_in_turns_bytes<Tile, " + storedType(e, getOf()[0]) + ", " +
               storedType(e, getOf()[1]) + ">()");
  emitCallOfWarpgroups(e, *this,
                       "differentiate_in_turns<" + number(getLoading(), "loading") + ", " +
                           number(getWorking(), "working") + ">",
                       ", " + e.expression(getHeads()) + ", " + number(getSharedBy(), "shared by") +
                           ", " + e.name(getNumbers()) + ", " + e.name(getSums()) + ", " +
                           e.name(getTurns()));
}
bool DifferentiateInTurnsOp::stores(Value pointer) {
  return pointer == getSums() || pointer == getTurns();
}
void BeginTurnsOp::emit(Emitter& e) {
  e.location(*this);
  e.line("begin_turns<" + number(getTurn(), "queries of a turn") + ", " +
         number(getTile(), "tile") + ">(" + e.name(getOf()[0]) + ", " + e.name(getOf()[1]) + ", " +
         e.expression(getQueries()) + ", " + e.name(getNumbers()) + ", " + e.name(getTurns()) +
         ");");
}
bool BeginTurnsOp::stores(Value pointer) {
  return pointer == getNumbers() || pointer == getTurns();
}
void FinishTurnsOp::emit(Emitter& e) {
  e.location(*this);
  assertBytes(e, *this,
              std::to_string(getTurn() / 16) + " * store_bytes<" + storedType(e, getTo()) + ", " +
                  std::to_string(getWidth()) + ">()");
  e.line("finish_turns<" + number(getTurn(), "queries of a turn") + ", " +
         number(getWidth(), "width") + ">(" + sharedAt(*this) + ", " + e.name(getSums()) + ", " +
         literal(getScale()) + " /*scale*/, " + e.expression(getQueries()) + ", " +
         e.expression(getKeys()) + ", " + e.name(getTo()) + ");");
}
void DifferentiateQueriesOp::emit(Emitter& e) {
  emitTile(e, *this, "AttentionTile", "",
           "query_gradient_bytes<Tile, " + storedType(e, getOf()[6]) + ">()");
  emitCall(e, *this, "differentiate_queries", "");
}
void DifferentiateKeysOp::emit(Emitter& e) {
  const auto flag = [](bool value) { return std::string(value ? ", true" : ", false"); };
  emitTile(e, *this, "KeyGradientTile",
           flag(getHasKeys()) + " /*of keys*/" + flag(getHasValues()) + " /*of values*/",
           "key_gradient_bytes<Tile, " + storedType(e, getOf()[6]) + ", " +
               storedType(e, getOf()[7]) + ">()");
  emitCall(e, *this, "differentiate_keys", ", " + number(getSharedBy(), "shared by"));
}
void AttendHeadsOp::emit(Emitter& e) {
  emitTile(e, *this, "HeadTile", "",
           "attend_heads_bytes<Tile, " + storedType(e, getOf()[3]) + ">()");
  emitCall(e, *this, "attend_heads", "");
}
void DifferentiateHeadsOp::emit(Emitter& e) {
  emitTile(e, *this, "HeadGradientTile", "",
           "head_gradient_bytes<Tile, " + storedType(e, getOf()[6]) + ", " +
               storedType(e, getOf()[7]) + ", " + storedType(e, getOf()[8]) + ">()");
  emitCall(e, *this, "differentiate_heads", ", " + number(getSharedBy(), "shared by"));
}
template <class Op>
static void emitByThreads(Emitter& e, Op op, const std::string& function,
                          const std::string& last = "") {
  e.location(op);
  e.line("using Tile = ThreadRows<" + e.memoryType(op.getElement()) + ", " +
         number(op.getWidth(), "width") + ", " + number(op.getValueWidth(), "value width") + ", " +
         number(op.getRows(), "rows") + ", " + number(op.getLanes(), "lanes") + ">;");
  std::string text =
      function + "(Tile(), " + e.name(op.getScores()) + ", " + e.expression(op.getHeads()) + last;
  for (Value heads : op.getOf())
    text += ", " + e.name(heads);
  e.line(text + ");");
}
void AttendByThreadsOp::emit(Emitter& e) {
  emitByThreads(e, *this, "attend_by_threads");
}
void DifferentiateQueriesByThreadsOp::emit(Emitter& e) {
  emitByThreads(e, *this, "differentiate_queries_by_threads");
}
void DifferentiateKeysByThreadsOp::emit(Emitter& e) {
  emitByThreads(e, *this,
                "differentiate_keys_by_threads<" + flag(getHasKeys(), "of keys") + ", " +
                    flag(getHasValues(), "of values") + ">",
                ", " + number(getSharedBy(), "shared by"));
}
void DifferentiateBiasOp::emit(Emitter& e) {
  emitTile(e, *this, "AttentionTile", "", "bias_gradient_bytes<Tile>()");
  emitCall(e, *this, "differentiate_bias",
           ", " + e.expression(getBiases()) + ", " + e.expression(getSharing()) + ", " +
               number(getGroups(), "groups"),
           ", " + e.name(getPartials()));
}
void FinishBiasOp::emit(Emitter& e) {
  e.location(*this);
  e.line("finish_bias<" + number(getGroups(), "groups") + ">(" + e.name(getPartials()) + ", " +
         e.expression(getBiases()) + ", " + e.expression(getQueries()) + ", " +
         e.expression(getKeys()) + ", " + e.expression(getRows()) + ", " +
         e.expression(getColumns()) + ", " + e.name(getTo()) + ", " +
         number(getThreads(), "threads") + ");");
}

bool DifferentiateKeysAndBiasSharingOp::stores(Value pointer) {
  return getPartials() == pointer;
}
bool DifferentiateAllSharingOp::stores(Value pointer) {
  return getPartials() == pointer || getOfKeys() == pointer;
}
bool DifferentiateAllByWarpsOp::stores(Value pointer) {
  return getPartials() == pointer;
}
bool DifferentiateBiasSharingOp::stores(Value pointer) {
  return getPartials() == pointer;
}
bool DifferentiateBiasOp::stores(Value pointer) {
  return getPartials() == pointer;
}
