// See Routes.h. Registered once; a table that is replaced as a whole says which products have a
// choice.
#include "runtime/products/Routes.h"

#include "runtime/Backends.h"
#include "runtime/Call.h"
#include "runtime/Log.h"
#include "runtime/Muted.h"
#include "runtime/Policy.h"
#include "runtime/Report.h"
#include "runtime/products/Tune.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/addmm_cuda_dispatch.h>
#include <ATen/ops/bmm_cuda_dispatch.h>
#include <ATen/ops/mm_cuda_dispatch.h>
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>
#include <torch/library.h>

namespace kiln::runtime {

namespace {

using at::Scalar;
using at::Tensor;

/// A product with what was chosen for it.
struct Chosen {
  explicit Chosen(const Choice& choice) : key(choice.product), choice(choice), lt(key) {}

  /// Asked at the first call, when LibTorch has made its handle of cuBLASLt, not when a file is
  /// read.
  const Algorithm* algorithm() {
    std::call_once(once, [&] { isTaken = choice.algorithm && lt.takes(*choice.algorithm); });
    return isTaken ? &*choice.algorithm : nullptr;
  }

  const Product key;
  Choice choice; // constant once others see it
  const BlasLt lt;
  std::atomic<std::uint64_t> calls = 0, used = 0;

 private:
  std::once_flag once;
  bool isTaken = false;
};

struct Known {
  Table<Product, Chosen> table;
  Choices choices; // as the file has them; whoever adds one has the table's lock
  std::filesystem::path file;
  bool tunes = false;
  std::string note;                      // why nothing of it is used
  std::atomic<std::uint64_t> others = 0; // calls of products that have no choice
};
std::atomic<Known*> known = nullptr; // each lives for good: calls may be at it

/// None of the algorithms where they cannot be timed: no memory, say.
std::unique_ptr<Chosen> tuned(const Product& product, const ProductCall& call, Known& all) {
  auto made = std::make_unique<Chosen>(Choice{product, {}, 0, 0});
  try {
    made->choice = tuneProduct(product, made->lt, call);
    all.choices.products.push_back(made->choice);
    all.choices.write(all.file);
  } catch (const std::exception& error) {
    log("products: {} is left to ATen: {}", textOf(product), error.what());
    return made;
  }
  const Choice& choice = made->choice;
  log("products: {} {:.1f} us, ATen's choice {:.1f}", textOf(product),
      choice.algorithm ? choice.micros : choice.byDefault, choice.byDefault);
  return made;
}

/// The product by what is chosen for it, which is made where it is missing and choices are being
/// made: into `c`, or memory of its own. Undefined: ATen computes it, as `native` would.
template <typename Native>
Tensor byChoice(const Tensor& a, const Tensor& b, Added added, const Native& native,
                const Tensor& c = {}, const Tensor& row = {}) {
  Known* const now = known.load(std::memory_order_acquire);
  const Mode mode = now ? currentPolicy().mode : Mode::off;
  if (mode != Mode::use && mode != Mode::tune)
    return {};
  const auto product = productOf(a, b, added);
  if (!product)
    return {};
  const c10::OptionalDeviceGuard guard(a.device());
  Chosen* chosen = now->table.find(*product);
  if (!chosen && now->tunes && !gpuBackend().isCapturing())
    chosen = &now->table.findOrMake(
        *product, [&] { return tuned(*product, ProductCall{a, b, c, row, native}, *now); });
  if (!chosen) {
    now->others.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  chosen->calls.fetch_add(1, std::memory_order_relaxed);
  const Algorithm* const algorithm = chosen->algorithm();
  if (!algorithm)
    return {};
  Tensor made = c.defined() ? c : emptyResult(a, b);
  if (!chosen->lt.launch(*algorithm, a, b, made, row))
    return {};
  chosen->used.fetch_add(1, std::memory_order_relaxed);
  return made;
}

template <Tensor (*native)(const Tensor&, const Tensor&), std::int64_t rank>
Tensor productOfRank(const Tensor& a, const Tensor& b) {
  Tensor made;
  if (a.dim() == rank && b.dim() == rank)
    made = byChoice(a, b, Added::nothing, [&](const Tensor&) { return native(a, b); });
  return made.defined() ? made : native(a, b);
}

bool isOne(const Scalar& number) {
  return number.isFloatingPoint() ? number.toDouble() == 1 : number.equal(1);
}

/// Whether `added` is of the product's dtype, lies densely, and where an access of 16 bytes wants
/// it.
bool isDense(const Tensor& added, const Tensor& a) {
  return added.scalar_type() == a.scalar_type() && added.device() == a.device() &&
         added.is_contiguous() && isAligned(added);
}

Tensor addmm(const Tensor& row, const Tensor& a, const Tensor& b, const Scalar& beta,
             const Scalar& alpha) {
  const auto native = [&](const Tensor&) { return at::cuda::addmm(row, a, b, beta, alpha); };
  Tensor made;
  if (a.dim() == 2 && b.dim() == 2 && row.dim() == 1 && row.size(0) == b.size(1) && isOne(beta) &&
      isOne(alpha) && isDense(row, a))
    made = byChoice(a, b, Added::row, native, {}, row);
  return made.defined() ? made : native({});
}

Tensor& addIntoMatrix(Tensor& c, const Tensor& a, const Tensor& b, const Scalar& beta,
                      const Scalar& alpha) {
  const bool fits = a.dim() == 2 && b.dim() == 2 && c.dim() == 2 && c.size(0) == a.size(0) &&
                    c.size(1) == b.size(1) && isOne(beta) && isOne(alpha) && isDense(c, a) &&
                    !c.is_alias_of(a) && !c.is_alias_of(b);
  const auto native = [&](const Tensor& sum) {
    Tensor into = sum;
    return at::cuda::addmm_(into, a, b, beta, alpha);
  };
  if (!fits || !byChoice(a, b, Added::sum, native, c).defined())
    at::cuda::addmm_(c, a, b, beta, alpha);
  return c;
}

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    const Muted muted;
    auto* library = // for good
        new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__,
                           __LINE__);
    library->impl("mm", &productOfRank<&at::cuda::mm, 2>);
    library->impl("bmm", &productOfRank<&at::cuda::bmm, 3>);
    library->impl("addmm", &addmm);
    library->impl("addmm_", &addIntoMatrix);
  });
}

} // namespace

void configureProducts(const Options& options) {
  if (options.products.empty() || options.place != Place::gpu || options.mode == Mode::off) {
    known.store(nullptr, std::memory_order_release);
    return;
  }
  auto made = std::make_unique<Known>();
  made->choices = Choices::of(options);
  made->file = options.products;
  made->tunes = options.tuneProducts;
  if (!gpuBackend().whyNot().empty())
    return;
  const std::string device = at::cuda::getCurrentDeviceProperties()->name;
  const std::uint64_t version = BlasLt::version();
  Choices& choices = made->choices;
  if (choices.device.empty())
    choices = {device, version};
  if (choices.device != device || choices.cublasLt != version) {
    made->note = fmt::format("{} is of {} and cuBLASLt {}, here are {} and {}", made->file.string(),
                             choices.device, choices.cublasLt, device, version);
    if (made->tunes)
      throw Error(ErrorKind::input,
                  fmt::format("products: {}; name a new file to tune", made->note));
  } else {
    for (const Choice& choice : choices.products)
      made->table.findOrMake(choice.product, [&] { return std::make_unique<Chosen>(choice); });
  }
  install();
  known.store(made.release(), std::memory_order_release);
}

void addProductsTo(std::string& rows, std::string& notes) {
  const Known* const now = known.load(std::memory_order_acquire);
  if (!now)
    return;
  for (const Chosen* one : now->table.all())
    if (const std::uint64_t calls = one->calls) {
      const Choice& choice = one->choice;
      rows += reportRow(
          one->key.added == Added::nothing ? "product" : "product and sum", textOf(one->key), calls,
          one->used,
          choice.algorithm
              ? fmt::format("cuBLASLt's algorithm by tuning: {:.1f} us, {:.1f} by default",
                            choice.micros, choice.byDefault)
              : std::string("left to ATen: its own choice was the fastest"));
    }
  if (const std::uint64_t others = now->others)
    rows += reportRow("product", "others", others, 0,
                      "left to ATen: " + now->file.string() + " has no choice");
  if (!now->note.empty())
    notes += fmt::format("note on products: {}: none of it is used\n", now->note);
}

} // namespace kiln::runtime
