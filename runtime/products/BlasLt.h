// cuBLASLt as LibTorch has loaded it: a product by one of its algorithms, and those that it names
// for a product. With a LibTorch that has CUDA only.
#pragma once

#include "runtime/products/Choices.h"

#include <memory>

namespace kiln::runtime {

/// A product's description, ready to be launched on the current stream. Any thread.
class BlasLt {
 public:
  static constexpr std::int64_t workspaceBytes = std::int64_t(32) << 20; // that algorithms may take

  /// Throws Error(unavailable) where there is no cuBLASLt.
  explicit BlasLt(const Product& product);
  ~BlasLt();
  BlasLt(const BlasLt&) = delete;
  BlasLt& operator=(const BlasLt&) = delete;

  /// What cuBLASLt's heuristics name, the best by them first: none adds up parts in 16 bits, or in
  /// an order that differs from run to run.
  std::vector<Algorithm> candidates() const;
  /// Whether it can be launched here.
  bool takes(const Algorithm& algorithm) const;
  /// c = a b, or c += a b, or a b + row; false: cuBLASLt could not.
  bool launch(const Algorithm& algorithm, const at::Tensor& a, const at::Tensor& b,
              const at::Tensor& c, const at::Tensor& row) const;

  static std::uint64_t version();

 private:
  struct Description;
  const std::unique_ptr<Description> its;
};

} // namespace kiln::runtime
