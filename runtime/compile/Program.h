// A tape with its plan, ready to be called with arguments like those it was recorded with.
#pragma once

#include "runtime/compile/Plan.h"

namespace kiln::compiled {

class Program {
 public:
  Program(Tape tape, const CaptureOptions& options, Dropouts dropouts = Dropouts::taken);

  /// The results; nothing where a value that the function read, or a shape that depends on
  /// values, is another one now. From several
  /// threads once it is settled.
  std::optional<Tensors> run(const Tensors& arguments) const;
  /// The same for the first time, when kernels are made; a region whose kernel cannot be made is
  /// planned anew without it. `rewind`: for a second try.
  std::optional<Tensors> settle(const Tensors& arguments, const std::function<void()>& rewind);
  /// Whether captured tensors still have the shapes and dtypes that they had.
  bool fits() const;
  const Tape& tape() const { return recorded; }
  const Plan& plan() const { return planned; }
  Tensors captured() const;

 private:
  bool runOp(const Op& op, bool copiesFirst, std::vector<at::Tensor>& values) const;
  void runRegion(const Region& region, std::vector<at::Tensor>& values) const;
  const std::vector<unsigned>& opsOf(const Step& step) const;
  std::optional<Tensors> runSteps(const Tensors& arguments,
                                  const std::vector<unsigned>*& current) const;
  at::Tensor valueOf(Slot slot, const std::vector<at::Tensor>& values) const;
  c10::IValue argumentOf(const Item& item, const std::vector<at::Tensor>& values) const;

  const Tape recorded;
  const CaptureOptions& options;
  const Dropouts dropouts;
  Failures failures;
  Plan planned;
  std::vector<bool> wantsGradient; // each captured tensor
};

} // namespace kiln::compiled
