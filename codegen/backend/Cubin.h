// What each kernel of a cubin uses, read from the ELF file itself, and spills from the
// assembler's log. Needs no tool of the toolkit. Safe on any bytes: refuses, never crashes.
#pragma once

#include "kiln/kiln.h"

#include <array>

namespace kiln {

struct CubinKernel {
  std::string name;
  int registers = 0;            // per thread
  std::int64_t sharedBytes = 0; // static, per block, without the driver's reserve
  std::int64_t stackBytes = 0;  // frame, per thread
  int barriers = 0;
  std::array<int, 3> maxThreads = {0, 0, 0}; // __launch_bounds__; zeros: none given
  std::int64_t parameterBytes = 0;           // without what aligns them
  std::vector<int> parameters;               // bytes of each
  std::int64_t codeBytes = 0;
};

struct Cubin {
  int capability = 0;                                     // 90 for sm_90 and sm_90a
  std::vector<CubinKernel> kernels;                       // in the order of the symbol table
  const CubinKernel& kernel(std::string_view name) const; // throws Error(input) listing all
};

Cubin readCubin(std::span<const std::byte> bytes); // throws Error(input)

struct SpillBytes {
  std::int64_t stores = 0;
  std::int64_t loads = 0;
};

/// Spills of one kernel from a log made with --ptxas-options=-v. Throws Error(input) if the log
/// says nothing of the kernel: unknown must not be taken for zero.
SpillBytes spillsOf(std::string_view log, std::string_view kernel);

/// Whether the assembler says that it makes a kernel's products of warpgroups wait for one another
/// (its messages C7506 to C7518).
bool hasSerializedProducts(std::string_view log, std::string_view kernel);

/// All that is known of one kernel; `dynamicSharedBytes` is added to the static ones.
Usage usageOf(const Cubin& cubin, std::string_view kernel, std::string_view log,
              std::int64_t dynamicSharedBytes);

} // namespace kiln
