// A rank's part of a sum over ranks, on CPUs: what it got of that part from each rank, added up in
// the order of ranks, in fp32 at least, so that the same numbers give the same bits. Gloo's own
// reduce-scatter sums everything on every rank, which moves twice as much, and keeps a part.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace kiln::dist {

class PartSum : public c10d::Work {
 public:
  /// `move` brings the parts, by rank; whoever waits writes their sum into `out`.
  PartSum(c10::intrusive_ptr<c10d::Work> move, std::vector<at::Tensor> parts, at::Tensor out)
      : move(std::move(move)), parts(std::move(parts)), out(std::move(out)) {}

  bool isCompleted() override { return move->isCompleted(); }
  bool isSuccess() const override { return move->isSuccess(); }
  std::exception_ptr exception() const override { return move->exception(); }
  bool wait(std::chrono::milliseconds limit) override;

 private:
  c10::intrusive_ptr<c10d::Work> move;
  std::vector<at::Tensor> parts; // none: they are summed
  at::Tensor out;
};

} // namespace kiln::dist
