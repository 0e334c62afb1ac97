// In place of Routes.cpp with a LibTorch without CUDA: a file is read, and nothing routed.
#include "runtime/products/Choices.h"
#include "runtime/products/Routes.h"

namespace kiln::runtime {

void configureProducts(const Options& options) {
  if (!options.products.empty())
    Choices::of(options);
}

void addProductsTo(std::string&, std::string&) {}

} // namespace kiln::runtime
