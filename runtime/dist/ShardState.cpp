// See ShardState.h.
#include "runtime/dist/ShardState.h"
#include "runtime/dist/Fail.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <charconv>
#include <map>

namespace kiln::dist {

using at::Tensor;
using State = torch::optim::AdamWParamState;

namespace {

constexpr const char* kKinds[] = {"exp_avg", "exp_avg_sq", "master"};

State* stateOf(const Piece& piece) {
  auto& all = piece.updates->state();
  const auto found = all.find(piece.master.unsafeGetTensorImpl());
  return found == all.end() ? nullptr : static_cast<State*>(found->second.get());
}

/// Undefined: there is none.
Tensor numbersOf(const Piece& piece, std::string_view kind) {
  if (kind == "master")
    return piece.hasCopy() ? piece.master : Tensor();
  const State* state = stateOf(piece);
  return !state ? Tensor() : kind == "exp_avg" ? state->exp_avg() : state->exp_avg_sq();
}

struct Name {
  std::string kind, parameter;
  std::int64_t first = 0;
  bool isPart = false;
};

/// "exp_avg.fc1.weight@128"
std::optional<Name> parse(const std::string& text) {
  const auto dot = text.find('.');
  if (dot == std::string::npos)
    return {};
  Name name{.kind = text.substr(0, dot), .parameter = text.substr(dot + 1)};
  if (name.kind != "step" && std::ranges::find(kKinds, name.kind) == std::end(kKinds))
    return {};
  if (const auto at = name.parameter.rfind('@'); at != std::string::npos) {
    const char* end = name.parameter.data() + name.parameter.size();
    const auto parsed = std::from_chars(name.parameter.data() + at + 1, end, name.first);
    name.isPart = parsed.ec == std::errc() && parsed.ptr == end && name.first >= 0;
    if (name.isPart)
      name.parameter.resize(at);
  }
  return name;
}

/// By slot, on all ranks; -1: never updated.
std::vector<std::int64_t> stepsOf(const std::vector<FlatWeights*>& weights,
                                  DataParallel::Impl& reducer) {
  const Tensor steps = at::full({std::int64_t(reducer.slots.size())}, -1, at::kLong);
  std::map<const Slot*, std::int64_t> index;
  for (std::size_t i = 0; i < reducer.slots.size(); ++i)
    index[&reducer.slots[i]] = std::int64_t(i);
  for (const FlatWeights* flat : weights)
    for (const Piece& piece : flat->pieces)
      if (const State* state = stateOf(piece))
        steps[index[piece.slot]] = state->step();
  const Tensor there = steps.to(reducer.group->device());
  reducer.group->allReduce(there, Sum::largest, Order::inStream).wait();
  const Tensor here = there.cpu();
  return {here.const_data_ptr<std::int64_t>(), here.const_data_ptr<std::int64_t>() + here.numel()};
}

/// One kind of numbers of a bucket, gathered from all ranks.
Tensor gathered(FlatWeights& flat, const char* kind, Group& group) {
  const auto dtype =
      at::isReducedFloatingType(flat.all.scalar_type()) ? at::kFloat : flat.all.scalar_type();
  const Tensor all = at::zeros(flat.all.sizes(), flat.all.options().dtype(dtype));
  const std::int64_t each = flat.mine.numel(), begin = group.rank() * each;
  for (const Piece& piece : flat.pieces)
    if (const Tensor numbers = numbersOf(piece, kind); numbers.defined()) {
      const std::int64_t at = piece.slot->offset + piece.first;
      all.slice(0, at, at + piece.count).copy_(numbers);
    }
  group.allGather(all, all.slice(0, begin, begin + each)).wait();
  return all;
}

void addWhole(std::vector<NamedParameter>& state, const Tensor& all, const Slot& slot,
              const std::string& kind) {
  const Tensor numbers = all.as_strided(slot.view.sizes(), slot.view.strides(), slot.offset);
  state.push_back({kind + '.' + slot.parameter.name, numbers.to(at::kCPU, /*non_blocking=*/false,
                                                                /*copy=*/true)});
}

} // namespace

std::vector<NamedParameter> partialState(const std::vector<FlatWeights*>& weights) {
  std::vector<NamedParameter> all;
  for (const FlatWeights* flat : weights)
    for (const Piece& piece : flat->pieces) {
      const std::string& name = piece.slot->parameter.name;
      for (const char* kind : kKinds)
        if (const Tensor numbers = numbersOf(piece, kind); numbers.defined())
          all.push_back({fmt::format("{}.{}@{}", kind, name, piece.first), numbers.clone()});
      if (const State* state = stateOf(piece))
        all.push_back({"step." + name, at::scalar_tensor(state->step(), at::kLong)});
    }
  return all;
}

std::vector<NamedParameter> wholeState(const std::vector<FlatWeights*>& weights,
                                       DataParallel::Impl& reducer) {
  const auto steps = stepsOf(weights, reducer);
  std::map<const Slot*, std::int64_t> stepOf;
  for (std::size_t i = 0; i < steps.size(); ++i)
    stepOf[&reducer.slots[i]] = steps[i];
  std::vector<NamedParameter> all;
  for (std::size_t b = 0; b < weights.size(); ++b) {
    const bool hasMasters = at::isReducedFloatingType(weights[b]->all.scalar_type());
    for (const std::string kind : kKinds) {
      if (kind == "master" && !hasMasters)
        continue;
      const Tensor numbers = gathered(*weights[b], kind.c_str(), *reducer.group);
      if (reducer.group->rank() > 0)
        continue;
      for (const Slot* slot : reducer.buckets[b]->slots())
        if (stepOf[slot] >= 0 || kind == "master")
          addWhole(all, numbers, *slot, kind);
    }
  }
  if (reducer.group->rank() == 0)
    for (const auto& [slot, step] : stepOf)
      if (step >= 0)
        all.push_back({"step." + slot->parameter.name, at::scalar_tensor(step, at::kLong)});
  return all;
}

void checkState(const std::vector<NamedParameter>& state, const DataParallel::Impl& reducer) {
  std::map<std::string, const Slot*> known;
  for (const Slot& slot : reducer.slots)
    known[slot.parameter.name] = &slot;
  for (const auto& [text, tensor] : state) {
    const auto name = parse(text);
    if (!name || !known.contains(name->parameter) || name->kind == "step")
      continue;
    const Tensor& parameter = known[name->parameter]->tensor();
    if (name->isPart ? name->first + tensor.numel() > parameter.numel()
                     : tensor.sizes() != parameter.sizes())
      fail(ErrorKind::input, "ShardedOptimizer: {} has {} elements from {} on, its parameter {}",
           text, tensor.numel(), name->first, parameter.numel());
  }
}

namespace {

/// Copies what a state has of a piece's numbers; how many elements there were.
std::int64_t fill(const Tensor& numbers, const Piece& piece, const Name& name, const Tensor& from) {
  const Tensor flat = name.isPart ? from.flatten() : flatOf(from, piece.slot->tensor());
  const std::int64_t begin = std::max(piece.first, name.first),
                     end = std::min(piece.first + piece.count, name.first + flat.numel());
  if (begin >= end)
    return 0;
  numbers.slice(0, begin - piece.first, end - piece.first)
      .copy_(flat.slice(0, begin - name.first, end - name.first));
  return end - begin;
}

void restorePiece(Piece& piece, const std::vector<std::pair<Name, Tensor>>& entries) {
  auto state = std::make_unique<State>();
  state->exp_avg(at::zeros_like(piece.master));
  state->exp_avg_sq(at::zeros_like(piece.master));
  std::map<std::string, std::int64_t> filled; // elements, by kind
  for (const auto& [name, tensor] : entries) {
    if (name.kind == "step") { // each rank's says the same
      state->step(tensor.item<std::int64_t>());
      filled[name.kind] = piece.count;
      continue;
    }
    filled[name.kind] += fill(name.kind == "exp_avg"      ? state->exp_avg()
                              : name.kind == "exp_avg_sq" ? state->exp_avg_sq()
                                                          : piece.master,
                              piece, name, tensor);
  }
  const bool wasUpdated = filled.size() > filled.count("master");
  const bool hasMaster = piece.hasCopy() || filled.contains("master");
  for (const auto& [kind, isNeeded] : {std::pair("exp_avg", wasUpdated),
                                       {"exp_avg_sq", wasUpdated},
                                       {"step", wasUpdated},
                                       {"master", hasMaster}})
    if (isNeeded && filled[kind] != piece.count)
      fail(ErrorKind::input,
           "ShardedOptimizer: the state's {} has {} of {} elements of {} from {} on: the parts of "
           "all ranks that saved it are needed, each once",
           kind, filled[kind], piece.count, piece.slot->parameter.name, piece.first);
  if (wasUpdated)
    piece.updates->state()[piece.master.unsafeGetTensorImpl()] = std::move(state);
}

} // namespace

void restorePieces(const std::vector<Piece*>& pieces, const std::vector<NamedParameter>& state) {
  std::map<std::string, std::vector<std::pair<Name, Tensor>>> byParameter;
  for (const auto& [text, tensor] : state)
    if (const auto name = parse(text))
      byParameter[name->parameter].emplace_back(*name, tensor);
  for (Piece* piece : pieces)
    if (const auto found = byParameter.find(piece->slot->parameter.name);
        found != byParameter.end())
      restorePiece(*piece, found->second);
}

} // namespace kiln::dist
