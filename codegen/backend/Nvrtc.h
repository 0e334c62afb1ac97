// CUDA C++ text to a cubin, in process, by NVRTC. No GPU, no driver, no toolkit headers needed.
// Thread-safe: every compile has a program object of its own.
#pragma once

#include "kiln/kiln.h"

namespace kiln {

struct CudaHeader {
  std::string name; // as it stands in #include
  std::string text;
};

struct CudaJob {
  std::string source;
  std::string name = "kernel.cu"; // appears in messages
  std::string arch = "sm_90a";
  std::vector<CudaHeader> headers;
  std::vector<std::string> options; // passed on as they are, after Kiln's own
  bool lineInfo = false;
  bool wantPtx = false;
  int threads = 1;             // of one compile, for a source of many kernels; the code is the same
  std::filesystem::path nvrtc; // library to use; empty: search
};

struct CudaResult {
  std::vector<std::byte> cubin;
  std::string ptx; // empty unless wanted
  std::string log; // warnings, and what the assembler says of registers and spills
  double milliseconds = 0;
};

/// Throws Error(input) with NVRTC's messages if the text does not compile, Error(unavailable)
/// without NVRTC.
CudaResult compileCuda(const CudaJob& job);

struct NvrtcInfo {
  std::string path;
  int major = 0;
  int minor = 0;
  std::vector<int> architectures; // 90 for sm_90 and sm_90a
};

/// The options that shape the code of every compile, beside the architecture.
std::string codeOptions();

/// The library that compileCuda uses. Throws Error(unavailable).
NvrtcInfo nvrtcInfo(const std::filesystem::path& nvrtc = {});

} // namespace kiln
