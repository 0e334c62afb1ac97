// The cubin reader against what NVRTC makes here, against ptxas's own figures, and against
// damaged files.
#include "codegen/backend/Cubin.h"
#include "codegen/backend/Target.h"
#include "test/backend/Kernels.h"

#include <random>

using namespace kiln;
using namespace kiln::test;

namespace {

using CubinFile = NvrtcTest;

CudaResult compile(const char* source, std::string_view arch) {
  CudaJob job;
  job.source = source;
  job.arch = arch;
  return compileCuda(job);
}

/// "ptxas info : Used 10 registers": the assembler's own number, for comparison.
int registersInLog(const std::string& log, const std::string& kernel) {
  std::size_t at = log.find("Function properties for " + kernel);
  at = log.find("Used ", at);
  return at == std::string::npos ? -1 : std::atoi(log.c_str() + at + 5);
}

TEST_F(CubinFile, EveryTarget) {
  for (const Target& target : allTargets()) {
    SCOPED_TRACE(target.arch);
    CudaResult result = compile(plainSource, target.arch);
    Cubin cubin = readCubin(result.cubin);
    EXPECT_EQ("sm_" + std::to_string(cubin.capability),
              target.arch.substr(0, target.arch.find('a')));
    ASSERT_EQ(cubin.kernels.size(), 2u);
    const CubinKernel& plain = cubin.kernel("plain");
    EXPECT_EQ(plain.registers, registersInLog(result.log, "plain"));
    EXPECT_EQ(plain.sharedBytes, 64);
    EXPECT_EQ(plain.stackBytes, 0);
    EXPECT_EQ(plain.barriers, 1);
    EXPECT_EQ(plain.maxThreads, (std::array<int, 3>{256, 1, 1}));
    EXPECT_EQ(plain.parameterBytes, 16);
    EXPECT_EQ(plain.parameters, (std::vector<int>{8, 8}));
    EXPECT_GT(plain.codeBytes, 100);
    const CubinKernel& bare = cubin.kernel("bare");
    EXPECT_EQ(bare.sharedBytes, 0);
    EXPECT_EQ(bare.barriers, 0);
    EXPECT_EQ(bare.maxThreads[0], 0);
    EXPECT_EQ(bare.parameterBytes, 8);
  }
}

TEST_F(CubinFile, OfSeveralThreadsHasTheSameKernels) {
  CudaJob job;
  job.source = std::string(plainSource) + spillingSource;
  const CudaResult by1 = compileCuda(job);
  job.threads = 4;
  const CudaResult by4 = compileCuda(job);
  EXPECT_EQ(by4.cubin, compileCuda(job).cubin) << "twice the same";
  const Cubin one = readCubin(by1.cubin), four = readCubin(by4.cubin);
  ASSERT_EQ(one.kernels.size(), 3u);
  ASSERT_EQ(four.kernels.size(), 3u);
  for (const CubinKernel& kernel : one.kernels) {
    const Usage a = usageOf(one, kernel.name, by1.log, 0),
                b = usageOf(four, kernel.name, by4.log, 0);
    EXPECT_EQ(a.registers, b.registers) << kernel.name;
    EXPECT_EQ(a.codeBytes, b.codeBytes) << kernel.name;
    EXPECT_EQ(a.spillStoreBytes, b.spillStoreBytes) << kernel.name;
    EXPECT_EQ(kernel.parameters, four.kernel(kernel.name).parameters) << kernel.name;
  }
}

TEST_F(CubinFile, Spills) {
  CudaResult result = compile(spillingSource, "sm_90a");
  Usage usage = usageOf(readCubin(result.cubin), "spilling", result.log, 4096);
  EXPECT_EQ(usage.registers, 32);
  EXPECT_GT(usage.stackBytes, 0);
  EXPECT_GT(usage.spillStoreBytes, 0);
  EXPECT_GT(usage.spillLoadBytes, 0);
  EXPECT_EQ(usage.sharedBytes, 4096);
}

TEST_F(CubinFile, UnknownKernel) {
  CudaResult result = compile(plainSource, "sm_90a");
  Cubin cubin = readCubin(result.cubin);
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { cubin.kernel("plane"); }),
             "the cubin has no kernel 'plane'; it has ");
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { spillsOf(result.log, "plane"); }),
             "the assembler's log says nothing of spills in 'plane'");
}

TEST(Cubin, SpillsOfTheRightKernel) {
  std::string log = "ptxas info    : Function properties for a\n"
                    "    320 bytes stack frame, 444 bytes spill stores, 460 bytes spill loads\n"
                    "ptxas info    : Function properties for ab\r\n"
                    "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\r\n";
  EXPECT_EQ(spillsOf(log, "a").stores, 444);
  EXPECT_EQ(spillsOf(log, "a").loads, 460);
  EXPECT_EQ(spillsOf(log, "ab").stores, 0);
  EXPECT_THROW(spillsOf("", "a"), Error);
  EXPECT_THROW(spillsOf("Function properties for a", "a"), Error);
}

TEST(Cubin, OtherFiles) {
  auto refuse = [](const std::string& text) {
    return errorOf(ErrorKind::input,
                   [&] { readCubin(std::as_bytes(std::span(text.data(), text.size()))); });
  };
  EXPECT_HAS(refuse(""), "not a cubin: 0 bytes");
  EXPECT_HAS(refuse("// PTX text, not a cubin, and long enough to hold an ELF header ........."),
             "do not begin with \\x7fELF");
  EXPECT_HAS(refuse("\x7f"
                    "ELF"),
             "the ELF header");
}

/// A damaged file may be read or refused; it may not do anything else.
void readDamaged(std::span<const std::byte> bytes) {
  // An allocation of its own, exactly as long, so that AddressSanitizer sees one byte too far.
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  try {
    readCubin(copy);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::input);
  }
}

TEST_F(CubinFile, CutOffAnywhere) {
  CudaResult result = compile(plainSource, "sm_90a");
  std::size_t step = 0;
  for (std::size_t size = 0; size < result.cubin.size(); size += 1 + step++ % 7)
    readDamaged(std::span(result.cubin).first(size));
  for (std::size_t size = 0; size < 64; ++size)
    EXPECT_THROW(readCubin(std::span(result.cubin).first(size)), Error);
}

TEST_F(CubinFile, FlippedBits) {
  for (const char* arch : {"sm_80", "sm_90a", "sm_120"}) {
    CudaResult result = compile(plainSource, arch);
    std::mt19937 random(1);
    for (int i = 0; i < 20000; ++i) {
      std::vector<std::byte> bad = result.cubin;
      for (unsigned flips = 1 + random() % 4; flips > 0; --flips)
        bad[random() % bad.size()] ^= static_cast<std::byte>(1u << random() % 8);
      readDamaged(bad);
    }
    // The header and the section table, where every byte matters.
    for (std::size_t at = 0; at < 64; ++at)
      for (int bit = 0; bit < 8; ++bit) {
        std::vector<std::byte> bad = result.cubin;
        bad[at] ^= static_cast<std::byte>(1u << bit);
        readDamaged(bad);
      }
  }
}

} // namespace
