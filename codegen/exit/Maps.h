// Arguments of an entry that tell where rows lie: maps from a row's number to its place, with the
// sizes and strides that are known at run time only.
#pragma once

#include "codegen/exit/Entry.h"
#include "codegen/family/Access.h"

namespace kiln::cu {

/// Some dimensions of an iteration space, merged where every buffer walks them alike.
struct Walk {
  llvm::SmallVector<Extent> space;
  llvm::SmallVector<std::pair<size_t, size_t>> runs;

  std::int64_t count() const; // -1: known at run time
};

/// A stride that is no constant as an argument of a kernel, and its name in the text. Of a run-time
/// stride without its coefficient.
std::pair<KernelArgument, std::string> argumentOf(const family::Access& access,
                                                  const family::Stride& stride);
/// From a number in the walk to the buffer's elements, in elements. `name`: of run-time
/// strides in the text; maps that have a run-time size in common share its argument.
mlir::Value rowMap(Entry& entry, const Walk& walk, const family::Access& access,
                   const std::string& name);
/// A stride, as a constant or as an argument.
mlir::Value stride(Entry& entry, const family::Access& access, const family::Stride& stride);

} // namespace kiln::cu
