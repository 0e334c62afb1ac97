// See Kernel.h.
#include "codegen/families/attention/Kernel.h"

#include "codegen/families/attention/Model.h"
#include "codegen/families/attention/Skeleton.h"
#include "codegen/families/attention/TensorMaps.h"
#include "codegen/families/rows/Nodes.h"

using namespace mlir;

namespace kiln::attention {

/// Dimensions that must agree: with the query's leading ones and its rows, with the key's rows.
LogicalResult AttentionKernel::unify(family::SizeClasses& sizes) {
  const Value query = input(program.form.query), key = input(program.form.key);
  const int rank = static_cast<int>(ir::tensorType(query).getRank());
  const auto meet = [&](Value one, int d, Value other, int e) {
    if (one && ir::tensorType(one).isDynamicDim(d) && ir::tensorType(other).isDynamicDim(e))
      sizes.unite({one, d}, {other, e});
  };
  // `rows`: whose rows the second last dimension counts; null: a number a row, of the query.
  const auto leading = [&](Value value) {
    for (int d = 0; value && d + 3 < rank; ++d)
      meet(value, d, query, d);
  };
  const auto like = [&](Value value, Value rows) {
    leading(value);
    if (value)
      meet(value, rank - 2, rows, rank - 2);
  };
  const auto ofScores = [&](Value value) {
    like(value, query);
    if (value)
      meet(value, rank - 1, key, rank - 2);
  };
  const auto operand = [&](Value argument) { return argument ? input(argument) : Value(); };
  like(key, key);
  like(input(program.form.value), key);
  ofScores(operand(program.form.bias));
  ofScores(operand(program.form.mask));
  for (Value rows : {program.outputGradient, program.delta, program.lse})
    like(operand(rows), query);
  if (program.form.queryStarts)
    meet(input(program.form.keyStarts), 0, input(program.form.queryStarts), 0);
  for (auto [result, to] : llvm::zip_equal(program.op->getResults(), program.outputs)) {
    if (to < 0)
      continue;
    Value output = op.getResult(to);
    auto backward = dyn_cast<ir::AttentionBackwardOp>(program.op);
    if (backward && result == backward.getDBias())
      ofScores(output);
    else
      like(output, backward && result != backward.getDQuery() ? key : query);
  }
  if (program.epilogue)
    unifyEpilogue(sizes);
  return success();
}

/// What has sizes of attention's output has those of the query.
void AttentionKernel::unifyEpilogue(family::SizeClasses& sizes) {
  const Epilogue& epilogue = *program.epilogue;
  const Value query = input(program.form.query);
  const auto meet = [&](Value value, ArrayRef<int> dimensions) {
    for (auto [d, to] : llvm::enumerate(dimensions))
      if (to >= 0 && ir::tensorType(value).isDynamicDim(d) &&
          ir::tensorType(query).isDynamicDim(to))
        sizes.unite({value, static_cast<int>(d)}, {query, to});
  };
  for (const Epilogue::Result& result : epilogue.results) {
    for (const auto& node : result.program->nodes) {
      const Value shape = rows::shapeSource(*node);
      if (isa_and_present<BlockArgument>(shape) && !epilogue.isOutput(shape))
        meet(input(shape), result.toOutput(node->map));
    }
    meet(op.getResult(result.number), result.toOutput(result.output().map));
  }
}

void AttentionKernel::bind(const family::Binding& binding) {
  inputs = binding.inputs;
  outputs = binding.outputs;
}

/// Pairs of a query and a key that causal attention and windows leave open. Nobody knows here how
/// long packed sequences are: of those a query sees one key at least.
static double openPlaces(const ir::AttentionForm& form, double queries, double keys) {
  if (form.queryStarts)
    return queries;
  const bool isCausal = form.causal != ir::Causal::none;
  if (!isCausal && form.windowLeft < 0 && form.windowRight < 0)
    return queries * keys;
  const auto limit = [](int64_t distance) {
    return distance < 0 ? std::numeric_limits<double>::infinity() : static_cast<double>(distance);
  };
  const double left = limit(form.windowLeft);
  const double right = isCausal ? 0.0 : limit(form.windowRight);
  const double aligned = form.causal == ir::Causal::last ? keys - queries : 0.0;
  double places = 0;
  for (double i = 0; i < queries; ++i) {
    const double same = i + aligned; // the key at the place of the query
    places += std::max(0.0, std::min(keys - 1, same + right) - std::max(0.0, same - left) + 1);
  }
  return places;
}

Facts AttentionKernel::factsOf(ArrayRef<int64_t> sizes) const {
  constexpr double typical = 1024; // rows where nobody knows
  const auto sizeOf = [&](const Extent& extent) {
    if (extent.isStatic())
      return static_cast<double>(extent.size);
    return sizes.empty()
               ? typical
               : static_cast<double>(sizes[std::min<size_t>(extent.symbol, sizes.size() - 1)]);
  };
  const TensorInfo &query = bufferOf(program.form.query), &key = bufferOf(program.form.key);
  Facts facts;
  facts.kind = program.kind;
  facts.bytes = static_cast<int>(sizeInBytes(query.dtype));
  facts.width = program.width();
  facts.valueWidth = program.valueWidth();
  facts.isCausal = program.form.causal != ir::Causal::none;
  facts.hasWindow = program.form.windowLeft >= 0 || program.form.windowRight >= 0;
  facts.hasDropout = static_cast<bool>(program.form.seed);
  facts.hasMask = static_cast<bool>(program.form.mask);
  facts.masksPlaces = program.form.masksPlaces();
  facts.hasSoftcap = program.form.softcap != 0.0;
  facts.hasPositiveScale = program.form.scale > 0.0;
  facts.isMapped = canBeMapped(program, inputs);
  facts.isBiasMapped = isBiasMapped(program, inputs);
  facts.knownKeys = std::max<int64_t>(key.shape[key.shape.size() - 2].size, 0);
  facts.knownQueries = std::max<int64_t>(query.shape[query.shape.size() - 2].size, 0);
  facts.queries = sizeOf(query.shape[query.shape.size() - 2]);
  facts.keys = sizeOf(key.shape[key.shape.size() - 2]);
  facts.places = openPlaces(program.form, facts.queries, facts.keys);
  const TensorInfo* bias = program.form.bias ? &bufferOf(program.form.bias) : nullptr;
  // Where nobody knows: rows that share a bias are as many as it has keys, those of pairs, and
  // others are a batch of so many tokens. Few heads would be taken for a grid that fills no GPU.
  constexpr double tokens = 8192;
  const auto rowsOf = [&](size_t d) {
    const bool share = bias && bias->shape[d] == Extent{1, -1};
    return share && facts.knownKeys > 0 ? static_cast<double>(facts.knownKeys)
                                        : std::max(8.0, tokens / std::max(facts.keys, 1.0));
  };
  const auto countOf = [&](ArrayRef<Extent> leading) {
    double count = 1;
    for (auto [d, extent] : llvm::enumerate(leading))
      count *= extent.isStatic() || !sizes.empty() ? sizeOf(extent) : rowsOf(d);
    return count;
  };
  const double batch = countOf(ArrayRef(query.shape).drop_back(3));
  facts.heads = batch * static_cast<double>(program.heads());
  facts.keyHeads = batch * static_cast<double>(program.keyHeads());
  facts.sharingKeys = program.heads() / std::max<int64_t>(program.keyHeads(), 1);
  facts.isBiasOfProducts = false;
  if (bias && facts.hasPositiveScale) {
    constexpr double steps = 0x1p8, most = 0x1p100; // steps of a mantissa of bf16
    int exponent = 0;
    const double inverse = 1.0 / program.form.scale;
    const double mantissa = std::frexp(inverse, &exponent) * steps;
    facts.isBiasOfProducts = bias->dtype == DType::bf16 && inverse > 1.01 && inverse < most &&
                             std::abs(std::nearbyint(mantissa) - mantissa) < 0x1p-11 * mantissa;
  }
  if (bias) {
    facts.biasBytes = static_cast<double>(sizeInBytes(bias->dtype));
    facts.biases = countOf(ArrayRef(bias->shape).drop_back(2));
  }
  const auto outBytes = [&](size_t result) {
    const int to = result < program.outputs.size() ? program.outputs[result] : -1;
    return to < 0 ? 2 : static_cast<int>(sizeInBytes(outputs[to]->tensor.dtype));
  };
  if (program.epilogue)
    countEpilogue(facts);
  else
    facts.outBytes = facts.otherOutBytes = outBytes(0);
  if (auto backward = dyn_cast<ir::AttentionBackwardOp>(program.op)) {
    facts.hasKeys = static_cast<bool>(backward.getDKey());
    facts.hasValues = static_cast<bool>(backward.getDValue());
    facts.sumsQueries = facts.hasKeys && backward.getDQuery();
    facts.canTakeTurns = canTakeTurns(backward);
    facts.sumsBias = facts.hasKeys && backward.getDBias();
    facts.queryOutBytes = outBytes(0);
    facts.outBytes = outBytes(program.firstOfKeys());
    if (facts.hasKeys && facts.hasValues)
      facts.otherOutBytes = outBytes(program.firstOfKeys() + 1);
  }
  facts.sharing = sharingOf(program, inputs);
  return facts;
}

/// Results are stored through as many bytes as the widest of them needs, one after the other.
void AttentionKernel::countEpilogue(Facts& facts) const {
  const Epilogue& epilogue = *program.epilogue;
  int widest = 0, all = 0;
  for (const Epilogue::Result& result : epilogue.results) {
    const int bytes = static_cast<int>(sizeInBytes(outputs[result.number]->tensor.dtype));
    widest = std::max(widest, bytes);
    all += bytes;
    for (const auto& node : result.program->nodes)
      if (node->kind == rows::Node::Kind::input && node->perRow && node->perColumn &&
          !epilogue.isOutput(node->value))
        all += static_cast<int>(sizeInBytes(bufferOf(node->value).dtype));
  }
  facts.outBytes = facts.otherOutBytes = widest;
  facts.epilogueBytes = all - widest;
}

std::unique_ptr<model::KernelModel> AttentionKernel::model(ArrayRef<int64_t> sizes) const {
  return std::make_unique<Model>(factsOf(sizes), 0.0);
}

/// Leading sizes, heads, queries, keys, and the widths of a place's products: those of its score,
/// and of what is computed of it.
SizeProduct AttentionKernel::multiplyAdds() const {
  const auto shapeOf = [&](Value argument) -> const std::vector<Extent>& {
    return inputs[cast<BlockArgument>(argument).getArgNumber()]->tensor.shape;
  };
  const std::vector<Extent>& query = shapeOf(program.form.query);
  std::vector<Extent> factors(query.begin(), query.end() - 1);
  factors.push_back(shapeOf(program.form.key).end()[-2]);
  const int64_t products = program.kind == Kind::forward ? 1 : 2;
  factors.push_back({products * (program.width() + program.valueWidth()), -1});
  return {std::move(factors)};
}

void AttentionKernel::lower(ModuleOp module, LaunchPlan& plan) {
  const Facts facts = factsOf({});
  const size_t first = plan.kernels.size();
  const std::string name = family::entryName(op.getName());
  lowerKernel({name, name, program, facts, Schedule::of(op.getSchedule()->getSchedule()), inputs,
               outputs, op.getScheduleAttr()},
              module, plan);
  plan.kernels[first].multiplyAdds = multiplyAdds();
}

} // namespace kiln::attention
