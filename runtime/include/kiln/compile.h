// kiln::compile: a C++ function of tensors, or a module, whose rows run on fused kernels, and whose
// attention, written out, runs as one.
//
//   auto step = kiln::compile(model, sample);             // torch::nn module, what forward() takes
//   auto block = kiln::compile([&](at::Tensor x, at::Tensor gate) {
//     return x + torch::sigmoid(gate) * torch::layer_norm(x, {x.size(-1)});
//   }, {x, gate});
//   at::Tensor y = block(x, gate); // results and gradients as the function's
//   std::cout << block.report();
//
// What is captured. The function is called once with the sample; ATen's operations are recorded as
// it calls them, without Python and without TorchScript. Groups of them that work on rows (math,
// casts, norms, softmax, sums along the last dimension; kiln/fuse.h) become one kernel forward and
// one backward each, if that saves bytes; attention becomes one operation; all else (products,
// views, indexing, random numbers) runs as recorded, in its order, with ATen's own backward. What
// nobody needs is left out. report() tells of each region and attention what it holds and whether
// it is used, and of each other operation why it is in none.
//
// Attention. softmax(q k^T scale + bias) v is recognised as it is usually written: products by
// matmul, mm, bmm, baddbmm, addmm or einsum; a scale that multiplies or divides the query or the
// scores; what is added to the scores, floats of any shape that is broadcast to them; masks of
// bools by masked_fill() or where(), with -inf or a number of at most -1e4 that is far below the
// scores of keys that are seen; casts and other leading dimensions in between; a dropout of the
// probabilities. It runs as kiln::nn::attention does (kiln/nn.h), forward and backward, with the
// gradient of what is added: by Kiln's kernels where kiln::enable() is on for its device, else by
// ATen's scaled_dot_product_attention. Where scores or probabilities are read by anything else, or
// where that operation does not take it, it runs as it is written. Three things are other than the
// formula's. A query all of whose keys are hidden by -inf gives zeros, not NaN. The dropout's
// numbers are drawn by whoever computes the attention. And a query all of whose keys are hidden by
// a number gives the mean of the values, without a dropout; its gradients are zero by Kiln's
// kernels where the number is beyond 2^25, as -1e9 is.
//
// What is followed. Parameters and other tensors that the function reads are captured by reference:
// an optimizer's step on them is seen; a tensor that took their place is not. Arguments of other
// shapes, strides, dtypes, devices, gradients wanted, grad mode, autocast or training flags (of a
// module that was given and all within it, and of CaptureOptions::modules: a function cannot be
// asked for those that it calls) are captured anew by the first call with them, up to 16 times;
// calls with more run the function itself.
//
// What is not. Control flow and numbers of C++ are taken as they were when it was captured: all
// that does not come of a tensor's value must be a function of what is listed above. A value that
// was read (item(), equal()) is read again and compared: if it differs, the function runs instead.
// Values read through pointers are not seen. Random numbers are drawn as the function draws them,
// but for dropouts of attention. A function is refused, that is, it runs as it is and the report
// says why, when it writes into arguments or captured tensors, runs a backward, uses custom
// autograd functions or kernels, or switches autocast within. So is one whose program does not
// agree with it on the sample, results and gradients. What else the function does (it prints, or
// counts) it does while it is captured only. Within a region numbers are fp32 and rounded once, at
// its results (kiln/fuse.h).
//
// Kernels are compiled while capturing, which takes seconds; not while a CUDA graph is captured or
// the thread is profiled: the function runs then, unless its kind of arguments was captured before.
// Threads may call it at the same time. Errors are kiln::Error(input) for samples that cannot be
// used, and whatever the function throws.
#pragma once

#include "kiln/fuse.h"

#include <concepts>
#include <functional>
#include <memory>

namespace torch::nn {
class Module;
} // namespace torch::nn

namespace kiln {

namespace compiled {
class State;
} // namespace compiled

struct CaptureOptions {
  std::string name = "compiled"; // in reports
  /// Place::cpu: regions run on the CPU too, by the host target, slowly (KILN_PLACE).
  Place place = Options::fromEnvironment().place;
  /// Results and gradients are compared with the function's when it is captured.
  bool check = true;
  /// Modules on whose training flags the function depends.
  std::vector<std::shared_ptr<torch::nn::Module>> modules = {};
};

/// A region of rows or an attention, as report() tells of it.
struct CompiledRegion {
  std::string ops;             // "layer_norm, mul, add", "attention: matmul, mul, softmax, matmul"
  bool used = false;           // as a kernel, or as one attention
  std::string why;             // not
  std::int64_t bytesSaved = 0; // of the forward's loads and stores, in each call
  bool isAttention = false;
};

/// A compiled function whose number of arguments and results is not part of its type.
class KILN_API CompiledFunction {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Function = std::function<Tensors(const Tensors&)>;
  CompiledFunction(Function f, const Tensors& sample, const CaptureOptions& options = {});
  /// Captured by its first call.
  CompiledFunction(Function f, const CaptureOptions& options);

  Tensors operator()(const Tensors& arguments) const;
  /// Of all captures.
  std::vector<CompiledRegion> regions() const;
  /// Why calls ran the function itself, with the number of calls.
  std::vector<std::pair<std::string, std::uint64_t>> refusals() const;
  std::string report() const;

 private:
  std::shared_ptr<compiled::State> state_;
};

/// What compile() gives: called with as many tensors as the sample had; `Result` is what the
/// function returns.
template <std::size_t count, typename Result> class Compiled {
 public:
  explicit Compiled(CompiledFunction function) : function_(std::move(function)) {}

  template <typename... Arguments>
    requires(sizeof...(Arguments) == count)
  Result operator()(const Arguments&... arguments) const {
    std::vector<at::Tensor> results = function_({arguments...});
    if constexpr (std::is_same_v<Result, at::Tensor>)
      return std::move(results[0]);
    else if constexpr (std::is_same_v<Result, std::vector<at::Tensor>>)
      return results;
    else
      return [&]<std::size_t... i>(std::index_sequence<i...>) {
        return Result{std::move(results[i])...};
      }(std::make_index_sequence<std::tuple_size_v<Result>>());
  }

  /// The same without the types.
  const CompiledFunction& untyped() const { return function_; }
  std::vector<CompiledRegion> regions() const { return function_.regions(); }
  std::string report() const { return function_.report(); }

 private:
  CompiledFunction function_;
};

namespace compiled {

/// What is called, as it is kept: a module that is given by reference stays where it is.
template <typename F> auto kept(F&& f) {
  using Value = std::remove_cvref_t<F>;
  if constexpr (!std::derived_from<Value, torch::nn::Module>)
    return Value(std::forward<F>(f));
  else if constexpr (std::is_lvalue_reference_v<F>)
    return std::addressof(f);
  else
    return std::make_shared<Value>(std::forward<F>(f));
}

/// The module at an address, which somebody else owns; null where there is none.
template <typename T> std::shared_ptr<torch::nn::Module> moduleAt(T* address) {
  if constexpr (std::derived_from<T, torch::nn::Module>)
    return {std::shared_ptr<void>(), const_cast<std::remove_const_t<T>*>(address)};
  else
    return nullptr;
}

/// The module that is called: behind a torch::nn::ModuleHolder, an AnyModule, a pointer of any kind
/// or a std::reference_wrapper. Null: what is called is a function.
template <typename F> std::shared_ptr<torch::nn::Module> moduleOf(const F& f) {
  if constexpr (requires { f.ptr(); })
    return f.ptr();
  else if constexpr (std::is_pointer_v<F>)
    return moduleAt(f);
  else if constexpr (requires { moduleAt(f.get()); })
    return moduleAt(f.get());
  else if constexpr (requires { moduleAt(&f.get()); })
    return moduleAt(&f.get());
  else
    return nullptr;
}

template <typename F> auto call(F& f, const auto&... tensors) {
  if constexpr (requires { f->forward(tensors...); })
    return f->forward(tensors...);
  else if constexpr (requires { f.get().forward(tensors...); })
    return f.get().forward(tensors...);
  else if constexpr (requires { f.ptr(); })
    return f.forward(tensors...); // torch::nn::AnyModule
  else
    return f(tensors...);
}

template <typename Result> std::vector<at::Tensor> listOf(Result&& result) {
  if constexpr (std::is_convertible_v<Result, at::Tensor>)
    return {std::forward<Result>(result)};
  else if constexpr (std::is_convertible_v<Result, std::vector<at::Tensor>>)
    return std::forward<Result>(result);
  else
    return std::apply([](auto&&... each) { return std::vector<at::Tensor>{std::move(each)...}; },
                      result);
}

/// A function of so many tensors as one of a list.
template <std::size_t count, typename F> CompiledFunction::Function listed(F f) {
  return [f = std::move(f)](const std::vector<at::Tensor>& arguments) mutable {
    return [&]<std::size_t... i>(std::index_sequence<i...>) {
      return listOf(call(f, arguments[i]...));
    }(std::make_index_sequence<count>());
  };
}

} // namespace compiled

/// `f`: takes tensors, returns one, or a std::vector, std::array or std::tuple of them; or a module
/// in a torch::nn::ModuleHolder, by std::shared_ptr or another pointer, or by reference: one that
/// `f` does not own has to live as long as what is returned.
template <typename F, std::size_t count>
auto compile(F&& given, const at::Tensor (&sample)[count], CaptureOptions options = {}) {
  auto f = compiled::kept(std::forward<F>(given));
  if (auto module = compiled::moduleOf(f))
    options.modules.push_back(std::move(module));
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    using Result = std::remove_cvref_t<decltype(compiled::call(f, sample[i]...))>;
    return Compiled<count, Result>(
        CompiledFunction(compiled::listed<count>(std::move(f)), {sample[i]...}, options));
  }(std::make_index_sequence<count>());
}

template <typename F> auto compile(F&& f, const at::Tensor& sample, CaptureOptions options = {}) {
  const at::Tensor samples[] = {sample};
  return compile(std::forward<F>(f), samples, std::move(options));
}

/// Of a function of tensors (const at::Tensor&), the counterpart of kiln/fuse.h's fuse() of
/// expressions: what compile() makes of it, captured by its first call instead of with a sample. It
/// may hold products and attention, written out; rows before and behind these are kernels.
template <fusion::OfTensors F> auto fuse(const F& f, const CaptureOptions& options = {"fused"}) {
  using Shape = fusion::Shape<F>;
  return Compiled<Shape::operands, std::remove_cvref_t<typename Shape::Result>>(
      CompiledFunction(compiled::listed<Shape::operands>(f), options));
}

} // namespace kiln
