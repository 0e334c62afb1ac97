// Kiln's C++ interface: parse or build a module, compile it for a GPU, read what its kernels
// use, run them on a device or on the host. Plain C++20: no MLIR, no CUDA, no Torch header.
// Every function may be called from any thread; values are cheap to copy (shared, immutable). One
// that was made without arguments or moved from is empty: it may be assigned to, copied and
// destroyed, and every other call is an Error(input).
// Errors are kiln::Error with the same text as the kernel-compile command prints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#define KILN_API __attribute__((visibility("default")))

namespace kiln {

KILN_API std::string_view version();

/// A text from outside as a terminal or a comment may show it: what they would obey (control and
/// escape characters, ends of lines unless `lines` are meant, changes of the direction of writing),
/// and what is not UTF-8, is written as \x1b.
KILN_API std::string printable(std::string_view text, bool lines = false);

/// What went wrong, at the grain at which a program may want to react.
/// `input`: text, shape, dtype or option refused. `infeasible`: no schedule fits the target.
/// `unavailable`: a library, compiler, driver or GPU is missing. `verification`: a result
/// disagrees with its reference. `io`: a file could not be read or written. `device`: the
/// driver reported an error. `missing`: a store has no choice where one was demanded. `corrupt`: a
/// store's file is damaged.
enum class ErrorKind { input, infeasible, unavailable, verification, io, device, missing, corrupt };

class KILN_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

enum class DType : std::uint8_t { f64, f32, bf16, f16, i64, i32, i1 };
KILN_API std::string_view name(DType);   // "bf16"
KILN_API std::size_t sizeInBytes(DType); // i1 is stored as one byte
/// "bf16", or what others call it: "bfloat16"; "fp32", "float32", "float"; "fp16", "half", ...
/// Throws Error(input).
KILN_API DType parseDType(std::string_view);

/// The stages of a Program, in order; the text or bytes of each can be saved, edited, resumed.
enum class Stage { module, fused, scheduled, emittable, cuda, cubin };
KILN_API std::string_view name(Stage);
KILN_API Stage parseStage(std::string_view); // throws Error(input)

/// The GPU architectures that Kiln compiles for: "sm_80", ...
KILN_API std::vector<std::string> archNames();
/// That of a name or an alias: "sm_90a" of "sm_90", "compute_90a" or "90". Throws Error(input).
KILN_API std::string parseArch(std::string_view);

/// Elements of a row that kernels reduce, at most. Longer ones are refused: Error(input).
inline constexpr std::int64_t maxRowWidth = 262144;

/// A named op with its shape, for programs that do not want to write MLIR.
/// Example: {.op = "layer_norm", .shape = {65536, 128}, .dtype = DType::bf16}.
struct OpSpec {
  std::string op;
  /// Leading sizes, then the row width; of attention, [batch x] heads x queries x width. -1 = known
  /// at run time.
  std::vector<std::int64_t> shape;
  DType dtype = DType::f32;
  /// Names and values of what the shape does not say: {"causal", "last"}. Module::settings() has
  /// those that an op takes.
  std::vector<std::pair<std::string, std::string>> settings = {};
};

/// What a named op can be told beside its shape.
struct OpSetting {
  std::string op, name;
  std::string allowed; // for people: "first or last"
};

/// An op with every size open that may be, and their values, by run-time size.
struct OpenedOp {
  OpSpec spec;
  std::vector<std::int64_t> sizes;
};

/// A parsed and verified module: one or more functions over tensors.
class KILN_API Module {
 public:
  /// Parses MLIR text; `name` appears in diagnostics as the file name.
  static Module parse(std::string_view text, std::string_view name = "<string>");
  static Module fromOp(const OpSpec& spec);
  /// The ops that fromOp() takes.
  static std::vector<std::string> ops();
  static std::vector<OpSetting> settings();
  /// The same op for any sizes. Throws Error(input) as fromOp() does.
  static OpenedOp opened(const OpSpec& spec);
  const std::string& text() const;
  const std::vector<std::string>& functions() const;

  struct State; // opaque: the library's own
  const State& state() const;

 private:
  std::shared_ptr<const State> state_;
};

/// Size of one dimension of an argument: a constant, or the run-time symbol it is bound to.
struct Extent {
  std::int64_t size = 0; // the constant, if symbol < 0
  int symbol = -1;       // index of the run-time size, equal symbols must have equal sizes
  bool isStatic() const { return symbol < 0; }
  bool operator==(const Extent&) const = default;
};

/// One tensor argument or result of a compiled function.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  std::vector<Extent> shape;
  std::vector<std::int64_t> strides; // elements; -1 = given at run time
  std::int64_t alignment = 16;       // bytes that every pointer must be a multiple of
  /// An input that the first kernel reads before its predecessor in the stream has ended (marked
  /// kiln.older, in a program whose schedule makes use of it). Whoever launches promises that it
  /// was complete before that predecessor began, or launches without overlap (LaunchOptions).
  bool older = false;
  int part = 0; // of a list: lists of one part have as many tensors, of the same lengths
  /// An input that holds no number below this: 0 of an optimizer's second moment.
  std::optional<double> lowest = {};
  /// An input whose numbers ascend from 0 to at most this size: starts of packed sequences.
  std::optional<Extent> ascendsTo = {};
  /// Elements that the strides given at run time, but the last dimension's, are multiples of; above
  /// 1, such a stride is not 0 either, unless the dimension has one element.
  std::int64_t strideMultiple = 1;
};

/// The list arguments and results of a program over lists of tensors (kiln/lists.h), in order.
/// They are reached through a table; `Program::inputs()` and `outputs()` do not count them. Each
/// has a name and a dtype, but no shape.
struct ListsInfo {
  std::int64_t chunk = 0; // elements of a tensor that a block works on; 0: a program without lists
  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;
  /// Blocks count themselves in the table, so that the last of a launch knows that it is: two
  /// launches with one table must not overlap.
  bool counts = false;

  int parts() const { // counted from 0; each has an input
    int count = 0;
    for (const TensorInfo& list : inputs)
      count = count > list.part ? count : list.part + 1;
    return count;
  }
  /// Inputs of a launch that are the table: the last ones.
  int tableInputs() const { return 2 * parts() + int(counts); }
};

/// What the compiled kernel uses, read from the cubin and the assembler's log.
struct Usage {
  int registers = 0;            // per thread
  std::int64_t sharedBytes = 0; // per block, static and dynamic
  std::int64_t stackBytes = 0;  // per thread
  std::int64_t spillStoreBytes = 0;
  std::int64_t spillLoadBytes = 0;
  int barriers = 0;
  std::int64_t codeBytes = 0;
  bool serializedProducts = false; // the assembler made its wgmma instructions wait for one another
};

/// Warps of a block that do one thing, and the registers a thread of theirs that they end with.
struct WarpRole {
  int warps = 0;
  int registers = 0;
  bool operator==(const WarpRole&) const = default;
};

struct KernelInfo {
  std::string name;
  std::string schedule;   // text of #kiln.schedule<...>; empty for helper kernels
  int threads = 0;        // per block
  int promisedBlocks = 0; // resident blocks an SM asked of the assembler
  int residentBlocks = 0; // resident blocks an SM that the usage allows
  bool programmatic = false;
  Usage usage;
  std::vector<WarpRole> roles; // in the order of the warps; none: all keep usage.registers
};

struct CompileOptions {
  std::string arch = "sm_90a";
  std::string function;            // empty: the only function of the module
  bool backward = false;           // compile the derived backward of that function
  bool readAhead = true;           // what that one's forward read is `older` (TensorInfo)
  std::string schedule;            // #kiln.schedule<...>, or {KERNEL = #kiln.schedule<...>, ...}
  std::vector<std::int64_t> sizes; // run-time sizes that the cost model chooses schedules for, the
                                   // last one for all that follow; none: usual ones
  std::filesystem::path saveTemps; // write every stage into this folder; empty: do not
  std::filesystem::path nvrtc;     // libnvrtc to use; empty: search
  Stage until = Stage::cubin;      // stop after this stage
};

/// One tensor for a launch. Sizes and strides are in elements; no strides = contiguous.
struct Buffer {
  void* data = nullptr;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
};

/// A compiled function: an object that only grows, stage by stage.
class KILN_API Program {
 public:
  static Program compile(const Module& module, const CompileOptions& options = {});
  /// Continues from the text of a stage that was saved and perhaps edited.
  static Program resume(Stage stage, std::string_view text, const CompileOptions& options = {});
  /// From what launchPlan() and cubin() gave, perhaps in another process: nothing is compiled. Has
  /// no text of any stage; its spills, which no cubin tells, are -1. Throws Error(input).
  static Program load(std::string_view launchPlan, std::span<const std::byte> cubin);

  const std::string& text(Stage stage) const; // not for Stage::cubin
  std::span<const std::byte> cubin() const;
  std::string launchPlan() const; // how its kernels are launched: one line of JSON
  std::string ptx() const;        // made on demand by NVRTC
  std::string usageJson() const;
  const std::string& arch() const;
  const std::vector<std::string>& remarks() const; // what was not fused, and why
  const std::vector<KernelInfo>& kernels() const;  // as assembled; none before Stage::cubin
  std::size_t launches() const;                    // kernels of a launch of the program
  const std::vector<TensorInfo>& inputs() const;
  const std::vector<TensorInfo>& outputs() const;
  const ListsInfo& lists() const;

  /// Runs the kernels on the host: the generated source through the system's C++ compiler.
  /// Reports accesses outside the buffers, unset shared memory and divergent barriers.
  void runOnHost(std::span<const Buffer> inputs, std::span<const Buffer> outputs) const;

  struct State; // opaque: the library's own
  const State& state() const;

 private:
  std::shared_ptr<const State> state_;
};

/// How a program follows what is on the stream already.
struct LaunchOptions {
  /// The first kernel may start while its predecessor in the stream still runs, if it was compiled
  /// so (KernelInfo::programmatic) and the predecessor lets it. It waits for the predecessor's end
  /// before it writes anything, and before it reads anything but inputs that are `older`. These
  /// must have been complete before the predecessor began: a saved activation, say, with other
  /// work enqueued since, but nothing that the immediately preceding launch, copy or memset writes.
  /// Without overlap nothing starts before all earlier work of the stream has ended, and nothing
  /// is promised. Between the kernels of one program overlap needs no promise.
  bool overlap = true;

  /// Which kernels. Those at the end that read nothing but the workspace (a backward's second,
  /// which adds up partial sums to gradients of weights) are often not needed soon. `main` leaves
  /// them out; `epilogue`, given the same tensors, sizes and workspace, launches them later, or on
  /// another stream that waits for the main part, beside what follows. Where there are none,
  /// `epilogue` does nothing.
  enum class Part { all, main, epilogue } part = Part::all;
};

/// Architecture of the current device, such as "sm_90a". Throws Error(unavailable) without a GPU
/// and for one that Kiln does not know.
KILN_API std::string deviceArch();

/// How often this process has compiled CUDA text with NVRTC.
KILN_API std::uint64_t compilations();

/// A program loaded into the driver, launchable on every device of the process.
class KILN_API Executable {
 public:
  explicit Executable(const Program& program); // throws Error(unavailable) without a GPU
  // Copies only, so that none is ever empty and launches need not ask.
  Executable(const Executable&) = default;
  Executable& operator=(const Executable&) = default;
  /// Bytes of scratch memory that `launch` needs for these sizes on the current device. Outputs are
  /// needed where a run-time size is that of no input.
  std::size_t workspaceBytes(std::span<const Buffer> inputs,
                             std::span<const Buffer> outputs = {}) const;
  /// Enqueues the kernels on `stream` (a CUstream, or null for the default stream) of the
  /// current context. Does not synchronise or allocate: safe inside graph capture.
  /// Pointers are device pointers; the workspace is 256-byte aligned device memory.
  void launch(std::span<const Buffer> inputs, std::span<const Buffer> outputs, void* workspace,
              void* stream, const LaunchOptions& options = {}) const;

  /// The same for callers that launch often and have checked their tensors: `sizes` holds the
  /// run-time sizes by symbol, `pointers` those of the inputs and then of the outputs, all aligned
  /// as compiled, with the strides compiled for; contiguous where those are given at run time.
  std::size_t workspaceBytes(std::span<const std::int64_t> sizes) const;
  void launch(std::span<const std::int64_t> sizes, std::span<void* const> pointers, void* workspace,
              void* stream, const LaunchOptions& options = {}) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

} // namespace kiln
