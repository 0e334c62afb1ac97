// Parameters in the dtype of products, cast once a step: what every pass, and what is computed
// again in a backward, would cast anew.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <vector>

namespace kiln::models {

/// Of one model, for as long as it lives. Which parameters are read together, and in which order,
/// is learnt from the first scope; from then on all are cast at a scope's beginning, by a few
/// launches, to memory that stays.
class Casts {
 public:
  /// While it lives, on all threads, cast() of Products.h takes what is kept here. Nobody writes to
  /// parameters meanwhile. One at a time.
  class Scope {
   public:
    explicit Scope(Casts& casts);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Casts& casts;
  };

  /// Those of the scope that there is, in this dtype; null: there is none, or it learns them.
  static const std::vector<at::Tensor>* find(at::TensorList parameters, at::ScalarType type);

 private:
  using Key = std::vector<const void*>; // the parameters, and the dtype
  struct Kept {
    std::vector<at::Tensor> from, to; // `to` is empty until the scope that met them ends
    at::ScalarType type;
  };
  void refresh();
  void allocate();

  std::map<Key, Kept> all;
};

} // namespace kiln::models
