// See kiln/bucket_ops.h: texts of programs over lists, and ATen's operations in their place.
#include "kiln/bucket_ops.h"

#include "runtime/Call.h"
#include "runtime/optim/ListCall.h"
#include "runtime/optim/StepOf.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln::optim {

using at::Tensor;

namespace {

/// A program over lists as it grows: computations in fp32, lists in their own dtypes.
class Text {
 public:
  /// The value in fp32 of a new argument.
  std::string argument(const std::string& name, DType dtype, std::size_t part) {
    arguments.push_back(
        fmt::format("%{}: tensor<?x{}> {{kiln.list = {}}}", name, kiln::name(dtype), part));
    if (dtype == DType::f32)
      return "%" + name;
    line("%{0}_wide = arith.extf %{0} : tensor<?x{1}> to tensor<?xf32>", name, kiln::name(dtype));
    return "%" + name + "_wide";
  }
  /// A list of fp32, rounded to `dtype`.
  void result(std::string value, DType dtype, std::size_t part) {
    if (dtype != DType::f32) {
      line("{0}_short = arith.truncf {0} : tensor<?xf32> to tensor<?x{1}>", value,
           kiln::name(dtype));
      value += "_short";
    }
    add(value, fmt::format("tensor<?x{}>", kiln::name(dtype)),
        fmt::format(" {{kiln.list = {}}}", part));
  }
  /// `value` times a constant, the n-th of the text.
  std::string scaled(const std::string& value, double scale, std::size_t n) {
    line("%scale{} = arith.constant dense<{:.9e}> : tensor<f32>", n, scale);
    line("%scales{0} = kiln.broadcast %scale{0} dims [] like {1} : tensor<f32>, tensor<?xf32> -> "
         "tensor<?xf32>",
         n, value);
    line("%scaled{0} = arith.mulf {1}, %scales{0} : tensor<?xf32>", n, value);
    return fmt::format("%scaled{}", n);
  }
  void number(const std::string& value) { add(value, "tensor<f32>", ""); }
  template <typename... Parts> void line(fmt::format_string<Parts...> format, Parts&&... parts) {
    body += "  " + fmt::format(format, std::forward<Parts>(parts)...) + '\n';
  }
  std::string of(const char* name) const {
    return fmt::format("func.func @{}({}) -> ({}) {{\n{}  return {} : {}\n}}\n", name,
                       fmt::join(arguments, ", "), fmt::join(marked, ", "), body,
                       fmt::join(values, ", "), fmt::join(types, ", "));
  }

 private:
  void add(const std::string& value, const std::string& type, const std::string& mark) {
    values.push_back(value);
    types.push_back(type);
    marked.push_back(type + mark);
  }
  std::vector<std::string> arguments, values, types, marked;
  std::string body;
};

constexpr std::size_t kMostParts = 16, kMostTerms = 64; // of a program over lists

bool isKilns(const Tensor& tensor) {
  return runtime::dtypeOf(tensor.scalar_type()).has_value() &&
         tensor.is_non_overlapping_and_dense();
}

/// Tensors gathered for a program over lists: a part for each dtype that inputs, and results where
/// there are some, have.
class Parts {
 public:
  explicit Parts(at::Device device) : device(device) {}

  /// False if kernels over lists do not take them; a result may be undefined. An input whose
  /// elements do not lie as the result's is copied.
  bool add(const Tensor& input, const Tensor& result) {
    const bool hasResult = result.defined();
    if (!takes(input) || (hasResult && !takes(result)))
      return false;
    const std::pair dtypes(dtypeOf(input), dtypeOf(hasResult ? result : input));
    const auto part = std::size_t(std::ranges::find(kinds, dtypes) - kinds.begin());
    if (part == kinds.size()) {
      if (part == kMostParts)
        return false;
      kinds.push_back(dtypes);
      lists.inputs.emplace_back();
      if (hasResult)
        lists.outputs.emplace_back();
    }
    if (hasResult)
      lists.outputs[part].push_back(result);
    const bool liesWell = !hasResult || liesLike(input, result);
    lists.inputs[part].push_back(
        liesWell
            ? input
            : at::empty_like(result, result.options().dtype(input.scalar_type())).copy_(input));
    return true;
  }

  std::vector<std::pair<DType, DType>> kinds; // by part: of what is read and of what is written
  ListCall::Lists lists;

 private:
  static DType dtypeOf(const Tensor& tensor) { return *runtime::dtypeOf(tensor.scalar_type()); }
  bool takes(const Tensor& tensor) const { return isKilns(tensor) && tensor.device() == device; }
  at::Device device;
};

void check(const std::vector<Tensor>& from, const std::vector<Tensor>& to) {
  bool fits = from.size() == to.size();
  std::size_t i = 0;
  for (; fits && i < from.size(); ++i)
    fits = from[i].sizes() == to[i].sizes() && from[i].device() == to[i].device();
  if (!fits)
    throw Error(
        ErrorKind::input,
        from.size() != to.size()
            ? fmt::format("ScaledCopy: {} tensors to {}; as many are needed", from.size(),
                          to.size())
            : fmt::format("ScaledCopy: tensor {} of [{}] on {} to [{}] on {}; equal sizes on "
                          "one device are needed",
                          i - 1, fmt::join(from[i - 1].sizes(), ", "), from[i - 1].device().str(),
                          fmt::join(to[i - 1].sizes(), ", "), to[i - 1].device().str()));
}

void scaledCopyByATen(const std::vector<Tensor>& from, const std::vector<Tensor>& to,
                      double scale) {
  const Tensor factor = at::scalar_tensor(scale, at::kDouble);
  std::vector<Tensor> copied, targets, inPlace;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const at::ScalarType given = from[i].scalar_type(), wanted = to[i].scalar_type(),
                         wide = at::promoteTypes(given, at::kFloat);
    if (wanted != given && wanted != wide) // rounded once
      to[i].copy_(scale == 1 ? from[i] : from[i].to(wide).mul(scale));
    else if (to[i].is_cpu() && wanted == given)
      at::mul_out(const_cast<Tensor&>(to[i]), from[i], factor);
    else {
      if (!from[i].is_same(to[i])) {
        copied.push_back(from[i]);
        targets.push_back(to[i]);
      }
      inPlace.push_back(to[i]);
    }
  }
  if (!targets.empty())
    at::_foreach_copy_(targets, copied);
  if (!inPlace.empty() && scale != 1)
    at::_foreach_mul_(inPlace, scale);
}

void checkSum(const std::vector<std::vector<Tensor>>& from, const std::vector<Tensor>& to) {
  if (from.empty() || to.empty())
    throw Error(ErrorKind::input, "OrderedSum: no tensor to sum; one at least is needed");
  for (const std::vector<Tensor>& list : from) {
    if (list.size() != to.size())
      throw Error(ErrorKind::input,
                  fmt::format("OrderedSum: {} tensors into {}; as many are needed", list.size(),
                              to.size()));
    for (std::size_t i = 0; i < to.size(); ++i)
      if (const Tensor& one = list[i];
          one.numel() != to[i].numel() || !one.is_contiguous() || !to[i].is_contiguous() ||
          one.scalar_type() != from[0][0].scalar_type() || one.device() != to[0].device() ||
          to[i].scalar_type() != to[0].scalar_type() || to[i].device() != to[0].device())
        throw Error(
            ErrorKind::input,
            fmt::format("OrderedSum: {} elements of {} on {} into {} on {}; contiguous tensors "
                        "of as many elements, one dtype and one device are needed",
                        one.numel(), c10::toString(one.scalar_type()), one.device().str(),
                        to[i].numel(), to[i].device().str()));
  }
}

/// Of tensor `i` of each list. `to` may be one of them.
void orderedSumByATen(const std::vector<std::vector<Tensor>>& from, std::size_t i, double scale,
                      const Tensor& to) {
  const at::ScalarType wide = at::promoteTypes(to.scalar_type(), at::kFloat);
  Tensor sum = from[0][i].view_as(to).to(wide, /*non_blocking=*/false, /*copy=*/true);
  for (std::size_t list = 1; list < from.size(); ++list)
    sum.add_(from[list][i].view_as(to));
  to.copy_(scale == 1 ? sum : sum.mul_(scale));
}

} // namespace

ScaledCopy::ScaledCopy(double scale)
    : scale(scale), call(std::make_unique<ListCall>("scaled_copy")) {}
ScaledCopy::~ScaledCopy() = default;
std::size_t ScaledCopy::launches() const {
  return call->launches;
}

void ScaledCopy::run(const std::vector<Tensor>& from, const std::vector<Tensor>& to) {
  const at::NoGradGuard constant;
  check(from, to);
  call->launches = 0;
  if (from.empty())
    return;
  const at::Device device = to.front().device();
  Parts parts(device);
  bool isTaken = call->takes(device);
  for (std::size_t i = 0; isTaken && i < from.size(); ++i)
    isTaken = parts.add(from[i], to[i]);
  const auto write = [&] {
    Text text;
    for (std::size_t part = 0; part < parts.kinds.size(); ++part) {
      const auto [given, wanted] = parts.kinds[part];
      const std::string x = text.argument(fmt::format("x{}", part), given, part);
      text.result(text.scaled(x, scale, part), wanted, part);
    }
    return text.of("scaled_copy");
  };
  if (!isTaken || !call->run(parts.lists, device, write))
    scaledCopyByATen(from, to, scale);
}

OrderedSum::OrderedSum(double scale)
    : scale(scale), call(std::make_unique<ListCall>("ordered_sum")) {}
OrderedSum::~OrderedSum() = default;
std::size_t OrderedSum::launches() const {
  return call->launches;
}

void OrderedSum::run(const std::vector<Tensor>& from, const Tensor& to) {
  std::vector<std::vector<Tensor>> lists;
  for (const Tensor& one : from)
    lists.push_back({one});
  run(lists, std::vector<Tensor>{to});
}

void OrderedSum::run(const std::vector<std::vector<Tensor>>& from, const std::vector<Tensor>& to) {
  const at::NoGradGuard constant;
  call->launches = 0;
  checkSum(from, to);
  const auto areKilns = [](const std::vector<Tensor>& list) {
    return std::ranges::all_of(list, isKilns);
  };
  const Tensor &first = from[0][0], &result = to[0];
  if (call->takes(result.device()) && from.size() <= kMostTerms && areKilns(to) &&
      std::ranges::all_of(from, areKilns)) {
    const DType given = *runtime::dtypeOf(first.scalar_type()),
                wanted = *runtime::dtypeOf(result.scalar_type());
    const auto write = [&] {
      Text text;
      std::string sum;
      for (std::size_t i = 0; i < from.size(); ++i) {
        const std::string x = text.argument(fmt::format("x{}", i), given, 0);
        if (i > 0)
          text.line("%s{} = arith.addf {}, {} : tensor<?xf32>", i, sum, x);
        sum = i > 0 ? fmt::format("%s{}", i) : x;
      }
      if (scale != 1)
        sum = text.scaled(sum, scale, 0);
      text.result(sum, wanted, 0);
      return text.of("ordered_sum");
    };
    const bool isPlainCopy = from.size() == 1 && scale == 1 && given == wanted;
    if (!isPlainCopy && call->run({.inputs = from, .outputs = {to}}, result.device(), write))
      return;
  }
  for (std::size_t i = 0; i < to.size(); ++i)
    orderedSumByATen(from, i, scale, to[i]);
}

SquareSum::SquareSum() : call(std::make_unique<ListCall>("square_sum")) {}
SquareSum::~SquareSum() = default;
std::size_t SquareSum::launches() const {
  return call->launches;
}

Tensor SquareSum::run(const std::vector<Tensor>& tensors) {
  const at::NoGradGuard constant;
  call->launches = 0;
  if (tensors.empty())
    throw Error(ErrorKind::input, "SquareSum: no tensor; one at least is needed");
  const at::Device device = tensors.front().device();
  Parts parts(device);
  const bool isTaken = call->takes(device) && std::ranges::all_of(tensors, [&](const Tensor& one) {
                         return parts.add(one, {});
                       });
  const auto write = [&] {
    Text text;
    std::string sum;
    for (std::size_t part = 0; part < parts.kinds.size(); ++part) {
      const std::string x = text.argument(fmt::format("x{}", part), parts.kinds[part].first, part);
      text.line("%square{0} = arith.mulf {1}, {1} : tensor<?xf32>", part, x);
      text.line("%own{0} = kiln.reduce sum %square{0} dims [0] : tensor<?xf32> -> tensor<f32>",
                part);
      if (part > 0)
        text.line("%sum{0} = arith.addf {1}, %own{0} : tensor<f32>", part, sum);
      sum = fmt::format("%{}{}", part > 0 ? "sum" : "own", part);
    }
    text.number(sum);
    return text.of("square_sum");
  };
  if (isTaken) {
    parts.lists.numbers = {at::empty({}, tensors.front().options().dtype(at::kFloat))};
    if (call->run(parts.lists, device, write))
      return parts.lists.numbers[0];
  }
  return at::stack(at::_foreach_norm(tensors, 2, at::kFloat)).square().sum();
}

} // namespace kiln::optim
