// See StepOf.h.
#include "runtime/optim/StepOf.h"

#include "runtime/Call.h"

#include <set>

namespace kiln::optim {

namespace {

constexpr char kNoDevice[] = "parameters on different devices";
constexpr char kParam[] = "a parameter, average or master copy of a dtype other than fp32";
constexpr char kGrad[] = "a gradient or copy of a dtype other than fp32, bf16 and fp16";
constexpr char kDense[] = "a parameter that leaves gaps in memory";
constexpr char kLikewise[] = "a state or copy whose sizes or strides are not its parameter's";
constexpr char kKinds[] = "parameters of more than 16 groups, dtypes and numbers of steps";
constexpr char kUnscale[] = "a scale that is not one fp32 number on the parameters' device";
constexpr char kBetas[] = "a beta of 0";

} // namespace

Kind kindOf(const Entry& entry) {
  return {entry.group, *runtime::dtypeOf(entry.grad.scalar_type()),
          entry.copy.defined() ? runtime::dtypeOf(entry.copy.scalar_type()) : std::nullopt,
          entry.steps};
}

bool liesLike(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() &&
         (a.strides() == b.strides() || (a.is_contiguous() && b.is_contiguous()));
}

static const char* whyNot(const Entry& entry) {
  const at::Tensor& param = entry.param;
  if (!param.is_non_overlapping_and_dense())
    return kDense;
  for (const at::Tensor* tensor : {&param, &entry.expAvg, &entry.expAvgSq, &entry.ema}) {
    if (!tensor->defined())
      continue;
    if (tensor->scalar_type() != at::kFloat)
      return kParam;
    if (!liesLike(*tensor, param))
      return kLikewise;
    if (tensor->device() != param.device())
      return kNoDevice;
  }
  if (!runtime::dtypeOf(entry.grad.scalar_type()))
    return kGrad;
  if (entry.grad.device() != param.device())
    return kNoDevice;
  if (const at::Tensor& copy = entry.copy; copy.defined()) {
    if (copy.scalar_type() != at::kBFloat16 && copy.scalar_type() != at::kHalf)
      return kGrad;
    if (!liesLike(copy, param))
      return kLikewise;
    if (copy.device() != param.device())
      return kNoDevice;
  }
  return nullptr;
}

const char* whyNotByLists(const StepOf& step) {
  const at::Device device = step.entries.front().param.device();
  std::set<Kind> kinds;
  for (const Group& group : step.groups)
    if (group.beta1 == 0 || group.beta2 == 0) // the logarithm of a beta makes its power
      return kBetas;
  for (const Entry& entry : step.entries) {
    if (entry.param.device() != device)
      return kNoDevice;
    if (const char* why = whyNot(entry))
      return why;
    kinds.insert(kindOf(entry));
  }
  if (kinds.size() > kMaxKinds)
    return kKinds;
  const at::Tensor& unscale = step.unscale;
  if (unscale.defined() &&
      (unscale.scalar_type() != at::kFloat || unscale.numel() != 1 || unscale.device() != device))
    return kUnscale;
  return nullptr;
}

} // namespace kiln::optim
