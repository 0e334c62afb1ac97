// See ListTable.h.
#include "runtime/optim/ListTable.h"

#include <ATen/core/Tensor.h>
#include <cstring>

namespace kiln::optim {

at::Tensor ListTable::upload(std::span<const std::byte> bytes, at::Tensor there) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (!there.defined())
    there = at::Tensor(backend.empty({size}, at::kByte, device));
  if (size == 0)
    return there;
  if (device.is_cpu()) {
    std::memcpy(there.data_ptr(), bytes.data(), bytes.size());
    return there;
  }
  const at::Tensor pinned(backend.pinned(size));
  std::memcpy(pinned.data_ptr(), bytes.data(), bytes.size());
  there.copy_(pinned, /*non_blocking=*/true);
  if (backend.isCapturing())
    kept.push_back(pinned);
  return there;
}

void ListTable::locate(std::vector<const void*> wanted, const ListsInfo& info,
                       std::span<const TensorList> inputs, std::span<const TensorList> outputs,
                       std::span<const Buffer> given) {
  pointers = std::move(wanted);
  if (!lists) {
    lists.emplace(info, inputs, outputs);
  } else {
    const auto moved = lists->relocate(info, inputs, outputs);
    const auto bytes = static_cast<std::int64_t>(moved.size());
    if (table.defined() && !isKept && !backend.isCapturing()) {
      upload(moved, table.narrow(0, table.numel() - bytes, bytes));
      return;
    }
  }
  if (isKept)
    kept.push_back(std::move(table));
  isKept = isWrittenByGraph = backend.isCapturing();
  table = upload(lists->table());
  arguments = lists->inputs(table.data_ptr(), given);
}

void ListTable::launched() {
  isKept = isKept || backend.isCapturing();
}

} // namespace kiln::optim
