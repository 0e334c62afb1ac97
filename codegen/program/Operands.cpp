// See Operands.h.
#include "codegen/program/Operands.h"

#include <numeric>

namespace kiln::program {
namespace {

std::vector<TensorList> partsOf(const std::vector<TensorInfo>& lists,
                                std::span<const std::int64_t> lengths,
                                std::span<const Buffer> tensors) {
  std::vector<TensorList> all;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    auto* at = static_cast<std::byte*>(tensors[i].data);
    TensorList& parts = all.emplace_back();
    for (std::int64_t length : lengths) {
      parts.push_back({at, {length}, {}});
      at += static_cast<std::size_t>(length) * sizeInBytes(lists[i].dtype);
    }
  }
  return all;
}

} // namespace

Operands::Operands(const LaunchPlan& plan, std::span<const std::int64_t> lengths)
    : inputs(plan.inputs.begin(), plan.inputs.begin() + std::ptrdiff_t(tensorsBefore(plan))),
      outputs(plan.outputs) {
  const std::int64_t elements = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  auto add = [&](const std::vector<TensorInfo>& lists, std::vector<TensorInfo>& to) {
    for (TensorInfo list : lists) {
      list.shape = {{elements, -1}};
      list.strides = {1};
      to.push_back(std::move(list));
    }
  };
  add(plan.lists.inputs, inputs);
  add(plan.lists.outputs, outputs);
}

/// The last inputs of a plan over lists are the table.
std::size_t tensorsBefore(const LaunchPlan& plan) {
  return plan.inputs.size() - static_cast<std::size_t>(plan.lists.tableInputs());
}

std::optional<TensorLists> listsOf(const LaunchPlan& plan, std::span<const std::int64_t> lengths,
                                   std::span<const Buffer> inputs,
                                   std::span<const Buffer> outputs) {
  if (plan.lists.parts() == 0)
    return {};
  return TensorLists(plan.lists,
                     partsOf(plan.lists.inputs, lengths, inputs.subspan(tensorsBefore(plan))),
                     partsOf(plan.lists.outputs, lengths, outputs.subspan(plan.outputs.size())));
}

LaunchBuffers::LaunchBuffers(const LaunchPlan& plan, std::span<const std::int64_t> lengths,
                             std::vector<Buffer> given, std::vector<Buffer> results)
    : inputs(std::move(given)), outputs(std::move(results)) {
  const std::optional<TensorLists> lists = listsOf(plan, lengths, inputs, outputs);
  if (!lists)
    return;
  table.emplace(std::max<std::size_t>(lists->tableBytes(), 16));
  Stream stream;
  lists->upload(table->data(), stream.get());
  stream.synchronize();
  inputs = lists->inputs(table->data(), std::span(inputs).first(tensorsBefore(plan)));
  outputs.resize(plan.outputs.size());
}

} // namespace kiln::program
