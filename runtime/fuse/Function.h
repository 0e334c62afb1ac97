// A fused function: what was traced, and a variant of it for every kind of operands that it was
// called with.
#pragma once

#include "runtime/Table.h"
#include "runtime/fuse/Graph.h"
#include "runtime/fuse/Variant.h"

namespace kiln::fusion {

class Function {
 public:
  Function(unsigned operands, FusedFunction::Trace trace, const void* function,
           const FuseOptions& options);

  std::vector<at::Tensor> call(std::span<const at::Tensor* const> operands);
  void callInto(std::span<const at::Tensor* const> operands, std::span<const at::Tensor> results);

  /// Lines of kiln::report().
  void addTo(std::string& rows) const;

 private:
  /// Why ATen computes a call: one of the reasons below, or null.
  const char* whyEager(std::span<const at::Tensor* const> operands) const;
  void check(std::span<const at::Tensor* const> operands) const;
  std::vector<at::Tensor> compute(const char* why, std::span<const at::Tensor* const> operands,
                                  const Space& space);
  Kind kindOf(std::span<const at::Tensor* const> operands, const Space& space) const;
  /// Null: the kernel is not there yet.
  Variant* find(std::span<const at::Tensor* const> operands, std::span<const at::Tensor> results,
                Space& space);
  bool isReady(Variant& variant, bool withBackward) const;

  const FuseOptions options;
  const Graph graph;
  runtime::Table<Signature, Variant> variants;
  struct Eager {
    const char* why;
    std::atomic<std::uint64_t> calls = 0;
  };
  std::array<Eager, 6> eager;
};

/// Of all functions that there are.
void addFunctionsTo(std::string& rows);

} // namespace kiln::fusion
