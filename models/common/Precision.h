// Numbers of a run: fp32, tf32 products, or bf16 products by autocast over fp32 weights.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <string>

namespace kiln::models {

/// Autocast for a scope, on this thread. Casts of weights are kept until the outermost scope ends.
class Autocast {
 public:
  struct State {
    bool enabled = false;
    at::ScalarType dtype = at::kFloat;
  };
  static State current(at::DeviceType device);
  /// "bf16" casts, "fp32" and "tf32" do not.
  static State of(const std::string& precision);

  Autocast(at::DeviceType device, State state);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device;
  State before;
};

/// For the process: how fp32 products are computed, and whether results must repeat bit by bit.
void setPrecision(const std::string& precision, bool deterministic);

} // namespace kiln::models
