// An exponential moving average of a model's parameters: what is validated and shipped where single
// steps are noisy.
#pragma once

#include "models/common/Safetensors.h"

#include <torch/nn/module.h>

namespace kiln::models {

class Ema {
 public:
  /// Begins with the parameters as they are. Throws Error(input) unless 0 <= decay < 1.
  Ema(const torch::nn::Module& model, double decay);

  /// After a step: average += (1 - decay) (parameter - average).
  void update();

  /// The averages take the parameters' place, and these theirs; again, and all is as before.
  void exchange();
  /// exchange(), for a scope.
  class Exchanged {
   public:
    explicit Exchanged(Ema& ema) : ema(ema) { ema.exchange(); }
    ~Exchanged() { ema.exchange(); }
    Exchanged(const Exchanged&) = delete;
    Exchanged& operator=(const Exchanged&) = delete;

   private:
    Ema& ema;
  };

  /// The averages as ema.NAME.
  std::vector<NamedTensor> state() const;
  /// Throws Error(corrupt).
  void restore(const Safetensors& from);

 private:
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters, averages;
  double decay;
};

} // namespace kiln::models
