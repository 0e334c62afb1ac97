// See Function.h.
#include "runtime/fuse/Function.h"

#include "runtime/Backends.h"
#include "runtime/Call.h"
#include "runtime/Compiler.h"
#include "runtime/Plain.h"
#include "runtime/Report.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/copy.h>
#include <bit>
#include <deque>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln::fusion {

namespace {

constexpr char kDouble[] = "fp64";
constexpr char kDevice[] = "tensors that are not on a GPU";
constexpr char kEmptyTensor[] = "an empty tensor";
constexpr char kWaiting[] = "its kernel was not there yet";

struct Functions {
  std::mutex mutex;
  std::deque<std::unique_ptr<Function>> all; // for good: the compiler and graphs refer to them
};
Functions& functions() {
  static auto* one = new Functions;
  return *one;
}

/// What a kernel may be given; nothing for others.
std::optional<DType> kernelType(at::ScalarType type) {
  switch (type) {
  case at::kLong:
    return DType::i64;
  case at::kInt:
    return DType::i32;
  case at::kBool:
    return DType::i1;
  default:
    return runtime::dtypeOf(type);
  }
}

bool isIdentifier(const std::string& name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

} // namespace

Function::Function(unsigned operands, FusedFunction::Trace trace, const void* function,
                   const FuseOptions& options)
    : options(options), graph(operands, trace, function), eager{{{kDouble},
                                                                 {kDevice},
                                                                 {kEmptyTensor},
                                                                 {runtime::kWrapped},
                                                                 {runtime::kTangent},
                                                                 {kWaiting}}} {
  if (!isIdentifier(options.name))
    throw Error(ErrorKind::input,
                fmt::format("fuse: the name '{}' is not of letters, digits and '_', beginning with "
                            "a letter or '_'",
                            options.name));
}

void Function::check(std::span<const at::Tensor* const> operands) const {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const at::Tensor& operand = *operands[i];
    const auto refuse = [&](const std::string& why) {
      throw Error(ErrorKind::input, fmt::format("{}: operand {} {}", options.name, i, why));
    };
    if (!operand.defined())
      refuse("is undefined");
    if (operand.layout() != at::kStrided)
      refuse("is not strided; give dense tensors");
    if (!kernelType(operand.scalar_type()) && operand.scalar_type() != at::kDouble)
      refuse(fmt::format("has dtype {}; Float, BFloat16, Half, Double, and for masks and indices "
                         "Bool, Long and Int are allowed",
                         c10::toString(operand.scalar_type())));
    if (operand.device() != operands[0]->device())
      refuse(fmt::format("is on {}, operand 0 on {}; move one of them", operand.device().str(),
                         operands[0]->device().str()));
  }
}

const char* Function::whyEager(std::span<const at::Tensor* const> operands) const {
  const at::Device device = operands[0]->device();
  if (!device.is_cuda() && !(device.is_cpu() && options.place == Place::cpu))
    return kDevice;
  for (const at::Tensor* operand : operands) {
    if (operand->scalar_type() == at::kDouble)
      return kDouble;
    if (const char* why = runtime::whyNotPlain(*operand))
      return why;
  }
  return nullptr;
}

Kind Function::kindOf(std::span<const at::Tensor* const> operands, const Space& space) const {
  Kind kind;
  kind.groups = space.groups;
  kind.width = space.width;
  kind.place = runtime::placeOf(*operands[0]);
  kind.device = static_cast<std::uint8_t>(std::max<int>(operands[0]->device().index(), 0));
  kind.rowClass =
      static_cast<std::uint8_t>(std::bit_width(static_cast<std::uint64_t>(space.rows())));
  kind.apart = space.apart;
  kind.resultsApart = space.resultsApart;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const at::Tensor& operand = *operands[i];
    kind.operands.push_back({*kernelType(operand.scalar_type()), space.masks[i],
                             at::GradMode::is_enabled() && operand.requires_grad(),
                             (space.operandsApart >> i & 1) != 0});
  }
  if (space.groups > 1 && (space.apart != 0 || kind.sumsInnerGroup()))
    kind.innerRows = space.groupSizes[space.groups - 1];
  return kind;
}

std::vector<at::Tensor> Function::compute(const char* why,
                                          std::span<const at::Tensor* const> operands,
                                          const Space& space) {
  for (Eager& one : eager)
    if (one.why == why)
      one.calls.fetch_add(1, std::memory_order_relaxed);
  Kind kind;
  kind.groups = space.groups;
  bool isDouble = false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto type = operands[i]->scalar_type();
    kind.operands.push_back({kernelType(type).value_or(DType::f32), space.masks[i], false});
    isDouble |= type == at::kDouble;
  }
  auto types = resultTypes(graph, kind);
  for (unsigned i = 0; i < types.size(); ++i)
    if (isDouble && graph.fixedType(i).value_or(at::kFloat) == at::kFloat)
      types[i] = at::kDouble;
  return computeEagerly(graph, operands, types, static_cast<std::int64_t>(space.shape.size()));
}

/// Waits for kernels as the options say; false: not yet.
bool Function::isReady(Variant& variant, bool withBackward) const {
  for (Part* part : {&variant.forward, &variant.backward}) {
    if (part == &variant.backward && !withBackward)
      break;
    if (part->kernel.load(std::memory_order_acquire))
      continue;
    if (!part->isSettled() && part->backend.isCapturing())
      throw Error(ErrorKind::unavailable,
                  fmt::format("{}: a graph is being captured and the kernel is not there yet; call "
                              "the function on operands of these shapes before",
                              variant.label));
    if (!part->isSettled() && !options.wait && graph.dropouts == 0) { // ATen would draw others
      runtime::resumeCompiling();
      return false;
    }
    waitFor(*part);
    if (part->state.load(std::memory_order_acquire) == Part::State::aten)
      return false;
    if (!part->kernel.load(std::memory_order_acquire))
      throw Error(ErrorKind::infeasible,
                  fmt::format("{}: no kernel: {}", part->text().label, part->detail));
  }
  return true;
}

Variant* Function::find(std::span<const at::Tensor* const> operands,
                        std::span<const at::Tensor> results, Space& space) {
  space.findBlocksApart(operands, results);
  if (graph.isElementwise)
    space.takeUsualRows(operands.size());
  const Kind kind = kindOf(operands, space);
  Variant& variant = variants.findOrMake(kind.signature(), [&] {
    return std::make_unique<Variant>(graph, kind, options.name, runtime::backendOf(kind.place),
                                     space);
  });
  const bool ready = isReady(variant, variant.hasBackward());
  (ready ? variant.used : variant.missed).fetch_add(1, std::memory_order_relaxed);
  return ready ? &variant : nullptr;
}

std::vector<at::Tensor> Function::call(std::span<const at::Tensor* const> operands) {
  check(operands);
  Space space(operands, options.name);
  const char* why = space.isEmpty() ? kEmptyTensor : whyEager(operands);
  Variant* variant = why ? nullptr : find(operands, {}, space);
  return variant ? runKernels(*variant, space, operands)
                 : compute(why ? why : kWaiting, operands, space);
}

void Function::callInto(std::span<const at::Tensor* const> operands,
                        std::span<const at::Tensor> results) {
  const at::NoGradGuard unrecorded;
  check(operands);
  Space space(operands, options.name);
  const char* why = space.isEmpty() ? kEmptyTensor : whyEager(operands);
  if (Variant* variant = why ? nullptr : find(operands, results, space))
    return runKernelInto(*variant, space, operands, results);
  const auto computed = compute(why ? why : kWaiting, operands, space);
  for (std::size_t i = 0; i < results.size(); ++i)
    results[i].copy_(computed[i]);
}

void Function::addTo(std::string& rows) const {
  for (const Variant* variant : variants.all()) {
    const std::uint64_t used = variant->used, missed = variant->missed;
    rows += runtime::reportRow(options.name, variant->label.substr(options.name.size() + 1),
                               used + missed, used, stateOf(variant->forward));
  }
  for (const Eager& one : eager)
    if (const std::uint64_t calls = one.calls)
      rows += runtime::reportRow(options.name, "", calls, 0, fmt::format("by ATen: {}", one.why));
}

void addFunctionsTo(std::string& rows) {
  Functions& known = functions();
  std::lock_guard held(known.mutex);
  for (const auto& function : known.all)
    function->addTo(rows);
}

} // namespace kiln::fusion

namespace kiln {

FusedFunction::FusedFunction(unsigned operands, Trace trace, const void* function,
                             const FuseOptions& options) {
  auto made = std::make_unique<fusion::Function>(operands, trace, function, options);
  function_ = made.get();
  auto& known = fusion::functions();
  std::lock_guard held(known.mutex);
  known.all.push_back(std::move(made));
}

std::vector<at::Tensor> FusedFunction::call(std::span<const at::Tensor* const> operands) const {
  return function_->call(operands);
}

void FusedFunction::callInto(std::span<const at::Tensor* const> operands,
                             std::span<const at::Tensor> results) const {
  function_->callInto(operands, results);
}

} // namespace kiln
