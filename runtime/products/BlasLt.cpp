// See BlasLt.h. Matrices of cuBLASLt are dense by columns: c^T = b^T a^T of tensors that are dense
// by rows. Its functions are looked up in the library that LibTorch has loaded, so that nothing is
// linked which a program with LibTorch would not have.
#include "runtime/products/BlasLt.h"

#include "kiln/torch.h"

#include <ATen/cuda/CUDAContext.h>
#include <bit>
#include <c10/cuda/CUDAStream.h>
#include <cublasLt.h>
#include <dlfcn.h>
#include <fmt/format.h>

namespace kiln::runtime {

namespace {

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));

struct Library {
  decltype(&cublasLtGetVersion) getVersion;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoCheck) algoCheck;
  decltype(&cublasLtMatmulAlgoGetHeuristic) getHeuristic;
  decltype(&cublasLtMatmulDescCreate) createDesc;
  decltype(&cublasLtMatmulDescDestroy) destroyDesc;
  decltype(&cublasLtMatmulDescSetAttribute) setDesc;
  decltype(&cublasLtMatrixLayoutCreate) createLayout;
  decltype(&cublasLtMatrixLayoutDestroy) destroyLayout;
  decltype(&cublasLtMatrixLayoutSetAttribute) setLayout;
  decltype(&cublasLtMatmulPreferenceCreate) createPreference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroyPreference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) setPreference;

  Library() {
    const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
    void* const loaded = dlopen(name.c_str(), RTLD_LAZY);
    if (!loaded)
      throw Error(ErrorKind::unavailable,
                  fmt::format("products: {} cannot be loaded: {}", name, dlerror()));
    const auto find = [&](auto& function, const char* symbol) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(loaded, symbol));
      if (!function)
        throw Error(ErrorKind::unavailable, fmt::format("products: {} has no {}", name, symbol));
    };
    find(getVersion, "cublasLtGetVersion");
    find(matmul, "cublasLtMatmul");
    find(algoCheck, "cublasLtMatmulAlgoCheck");
    find(getHeuristic, "cublasLtMatmulAlgoGetHeuristic");
    find(createDesc, "cublasLtMatmulDescCreate");
    find(destroyDesc, "cublasLtMatmulDescDestroy");
    find(setDesc, "cublasLtMatmulDescSetAttribute");
    find(createLayout, "cublasLtMatrixLayoutCreate");
    find(destroyLayout, "cublasLtMatrixLayoutDestroy");
    find(setLayout, "cublasLtMatrixLayoutSetAttribute");
    find(createPreference, "cublasLtMatmulPreferenceCreate");
    find(destroyPreference, "cublasLtMatmulPreferenceDestroy");
    find(setPreference, "cublasLtMatmulPreferenceSetAttribute");
  }
};

const Library& lt() {
  static const Library one;
  return one;
}

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(ErrorKind::unavailable,
                fmt::format("products: cuBLASLt gives {} for {}", static_cast<int>(status), what));
}

cublasLtMatmulAlgo_t algoOf(const Algorithm& algorithm) {
  return std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
}

} // namespace

struct BlasLt::Description {
  /// Of a b, whatever it is added to.
  struct Desc {
    cublasLtMatmulDesc_t desc = nullptr;
    explicit Desc(const Product& product) {
      check(lt().createDesc(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a description");
      const auto set = [&](cublasLtMatmulDescAttributes_t attribute, bool transposes) {
        const cublasOperation_t operation = transposes ? CUBLAS_OP_T : CUBLAS_OP_N;
        check(lt().setDesc(desc, attribute, &operation, sizeof operation), "an operation");
      };
      set(CUBLASLT_MATMUL_DESC_TRANSA, product.byColumnsB);
      set(CUBLASLT_MATMUL_DESC_TRANSB, product.byColumnsA);
      if (product.added == Added::row) {
        const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
        check(lt().setDesc(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
              "a row that is added");
      }
    }
    ~Desc() { lt().destroyDesc(desc); }
    Desc(const Desc&) = delete;
    Desc& operator=(const Desc&) = delete;
  };
  struct Layout {
    cublasLtMatrixLayout_t layout = nullptr;
    Layout(const Product& product, bool byColumns, std::int64_t rows, std::int64_t columns,
           std::int64_t step, std::int64_t stride) {
      const cudaDataType type = product.isHalf ? CUDA_R_16F : CUDA_R_16BF;
      const auto size = [](std::int64_t number) { return static_cast<std::uint64_t>(number); };
      check(lt().createLayout(&layout, type, size(byColumns ? rows : columns),
                              size(byColumns ? columns : rows), step),
            "a layout");
      const auto batch = static_cast<std::int32_t>(product.batch);
      check(lt().setLayout(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch),
            "a batch");
      check(lt().setLayout(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                           sizeof stride),
            "a stride");
    }
    ~Layout() { lt().destroyLayout(layout); }
    Layout(const Layout&) = delete;
    Layout& operator=(const Layout&) = delete;
  };

  explicit Description(const Product& p)
      : product(p), desc(p), a(p, p.byColumnsA, p.m, p.k, p.lda, p.strideA),
        b(p, p.byColumnsB, p.k, p.n, p.ldb, p.strideB), c(p, false, p.m, p.n, p.n, p.m * p.n) {}

  const Product product;
  const Desc desc;
  const Layout a, b, c;
};

BlasLt::BlasLt(const Product& product) : its(std::make_unique<Description>(product)) {}
BlasLt::~BlasLt() = default;

std::uint64_t BlasLt::version() {
  return lt().getVersion();
}

std::vector<Algorithm> BlasLt::candidates() const {
  constexpr int most = 32;
  cublasLtMatmulPreference_t preference = nullptr;
  check(lt().createPreference(&preference), "a preference");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check(lt().setPreference(preference, attribute, &value, sizeof value), "a preference");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspaceBytes));
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(attribute, std::uint32_t(16));
  std::array<cublasLtMatmulHeuristicResult_t, most> results{};
  int count = 0;
  lt().getHeuristic(at::cuda::getCurrentCUDABlasLtHandle(), its->desc.desc, its->b.layout,
                    its->a.layout, its->c.layout, its->c.layout, preference, most, results.data(),
                    &count); // none: none is named
  lt().destroyPreference(preference);
  std::vector<Algorithm> algorithms;
  for (int i = 0; i < count; ++i)
    if (const auto& one = results[static_cast<std::size_t>(i)]; one.state == CUBLAS_STATUS_SUCCESS)
      algorithms.push_back(std::bit_cast<Algorithm>(one.algo));
  return algorithms;
}

bool BlasLt::takes(const Algorithm& algorithm) const {
  const cublasLtMatmulAlgo_t algo = algoOf(algorithm);
  cublasLtMatmulHeuristicResult_t result{};
  return lt().algoCheck(at::cuda::getCurrentCUDABlasLtHandle(), its->desc.desc, its->b.layout,
                        its->a.layout, its->c.layout, its->c.layout, &algo,
                        &result) == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= static_cast<std::size_t>(workspaceBytes);
}

bool BlasLt::launch(const Algorithm& algorithm, const at::Tensor& a, const at::Tensor& b,
                    const at::Tensor& c, const at::Tensor& row) const {
  const float one = 1.0F, before = its->product.added == Added::sum ? 1.0F : 0.0F;
  const cublasLtMatmulAlgo_t algo = algoOf(algorithm);
  std::optional<Description::Desc> withRow; // whose pointer is that of one call
  if (its->product.added == Added::row) {
    withRow.emplace(its->product);
    const void* const pointer = row.const_data_ptr();
    check(lt().setDesc(withRow->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &pointer, sizeof pointer),
          "a row that is added");
  }
  const c10::DataPtr workspace = at::cuda::getCUDADeviceAllocator()->allocate(workspaceBytes);
  return lt().matmul(at::cuda::getCurrentCUDABlasLtHandle(),
                     withRow ? withRow->desc : its->desc.desc, &one, b.const_data_ptr(),
                     its->b.layout, a.const_data_ptr(), its->a.layout, &before, c.const_data_ptr(),
                     its->c.layout, c.mutable_data_ptr(), its->c.layout, &algo, workspace.get(),
                     static_cast<std::size_t>(workspaceBytes),
                     c10::cuda::getCurrentCUDAStream().stream()) == CUBLAS_STATUS_SUCCESS;
}

} // namespace kiln::runtime
