// See ListCall.h.
#include "runtime/optim/ListCall.h"

#include "runtime/Log.h"
#include "runtime/Policy.h"

#include <c10/core/DeviceGuard.h>

namespace kiln::optim {

namespace {

/// What a program is made for: the dtype of each list, below 0, and the lengths of its tensors.
void addForms(const std::vector<std::vector<at::Tensor>>& lists, std::vector<std::int64_t>& forms) {
  for (const auto& list : lists) {
    forms.push_back(-1 - std::int64_t(list.front().scalar_type()));
    for (const at::Tensor& tensor : list)
      forms.push_back(tensor.numel());
  }
}

} // namespace

bool ListCall::takes(at::Device device) {
  if (failed || (!device.is_cuda() && !device.is_cpu()))
    return false;
  const Place place = runtime::placeOf(device);
  return runtime::currentPolicy().computesLists(place) &&
         runtime::backendOf(place).whyNot().empty();
}

void ListCall::prepare(const std::string& text, at::Device device) {
  runtime::Backend& backend = runtime::backendOf(runtime::placeOf(device));
  if (plan && plan->isCaptured)
    kept.push_back(std::move(plan));
  auto next = std::make_unique<Plan>(backend, device);
  next->forms = forms;
  next->program = listProgram(text, name, backend, device.index());
  plan = std::move(next);
}

void ListCall::locate(const Lists& lists) {
  pointers.clear();
  for (const auto* side : {&lists.inputs, &lists.outputs})
    for (const auto& list : *side)
      for (const at::Tensor& tensor : list)
        pointers.push_back(tensor.data_ptr());
  if (plan->table.liesAt(pointers))
    return;
  const auto listed = [](const std::vector<std::vector<at::Tensor>>& tensors) {
    std::vector<TensorList> all(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i)
      for (const at::Tensor& tensor : tensors[i])
        all[i].push_back(entryOf(tensor));
    return all;
  };
  plan->table.locate(pointers, plan->program->lists(), listed(lists.inputs), listed(lists.outputs),
                     {});
}

bool ListCall::run(const Lists& lists, at::Device device,
                   const std::function<std::string()>& write) {
  const c10::OptionalDeviceGuard guard(device);
  launches = 0;
  try {
    forms.clear();
    addForms(lists.inputs, forms);
    addForms(lists.outputs, forms);
    if (!plan || plan->device != device || plan->forms != forms)
      prepare(write(), device);
  } catch (const Error& error) {
    runtime::log("{}: no kernel, ATen's are used for good: {}", name, error.what());
    failed = true;
    return false;
  }
  locate(lists);
  if (!plan->workspace.defined())
    if (const std::size_t bytes = plan->program->workspaceBytes(plan->table.arguments))
      plan->workspace = at::Tensor(runtime::backendOf(runtime::placeOf(device))
                                       .empty({std::int64_t(bytes)}, at::kByte, device));
  std::vector<Buffer> numbers;
  for (const at::Tensor& number : lists.numbers)
    numbers.push_back({number.data_ptr(), {}, {}});
  plan->program->launch(plan->table.arguments, numbers,
                        plan->workspace.defined() ? plan->workspace.data_ptr() : nullptr);
  plan->table.launched();
  plan->isCaptured |= runtime::backendOf(runtime::placeOf(device)).isCapturing();
  launches = plan->program->launches();
  return true;
}

} // namespace kiln::optim
