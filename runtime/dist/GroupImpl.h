// What a group and what it has begun are made of, for the units that do its work: Group.cpp starts
// and ends it and speaks for the host, Collectives.cpp moves tensors of the device.
#pragma once

#include "kiln/dist/group.h"
#include "runtime/dist/Alarm.h"
#include "runtime/dist/Backends.h"
#include "runtime/dist/CopyEngines.h"
#include "runtime/dist/PeerMemory.h"

#include <functional>
#include <mutex>

namespace kiln::dist {

struct Group::Impl {
  Place place;
  GroupOptions options;
  StorePtr store{};
  BackendPtr device{}, host{}; // the same for CPUs; none for a process alone
  std::unique_ptr<Alarm> alarm{};
  std::unique_ptr<Watch> watch{};
  std::unique_ptr<PeerMemory> peers{};   // none: NCCL does all
  std::unique_ptr<CopyEngines> copies{}; // likewise
  std::int64_t step = 0;
  bool aborted = false; // by the group's user
  std::once_flag deviceAborted{};
  int exceptions = std::uncaught_exceptions(); // at the start
  Pending asked{};                             // of agreed()
  at::Tensor answer{};

  bool isAlone() const { return !host; }
  /// Once; whoever comes second waits until it is done.
  void abortDevice();
  double reduce(const char* name, double value, c10d::ReduceOp::RedOpType op);
  void checkTensor(const char* name, const at::Tensor& tensor) const;
  using Begin = std::function<c10::intrusive_ptr<c10d::Work>(c10d::Backend&)>;
  static Begin reduced(const at::Tensor& tensor, c10d::ReduceOp::RedOpType op,
                       Order order = Order::beside);
  /// The last of the tensors is the one whose bytes are told.
  Pending begin(const char* name, c10d::Backend& backend, std::vector<at::Tensor> tensors,
                const Begin& begin);
  Pending onDevice(const char* name, std::vector<at::Tensor> tensors, const Begin& begin);
};

struct Pending::Impl {
  c10::intrusive_ptr<c10d::Work> work;
  Operation operation;
  Group::Impl* group;
  std::vector<at::Tensor> tensors; // live until it is done
  bool onHost;
};

} // namespace kiln::dist
