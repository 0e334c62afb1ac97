// A function and the backward that kiln-differentiate derives of it, both evaluated in fp64.
#pragma once

#include "dialect/Kiln.h"
#include "test/unit/Context.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <map>

namespace kiln::test {

using ir::Tensor64;
using Tensors = std::vector<Tensor64>;

/// Evaluates @f, its forward with saved values, and its backward; arguments are found by name.
class Derived {
 public:
  explicit Derived(const std::string& text, bool together = false) : module(context.parse(text)) {
    passes::DifferentiateOptions options;
    options.together = together;
    derived = context.run(*module, passes::createDifferentiate(options));
  }
  bool derived = false;

  mlir::func::FuncOp function(const std::string& name) {
    return module->lookupSymbol<mlir::func::FuncOp>(name);
  }
  Tensors run(mlir::func::FuncOp f, const Tensors& inputs) {
    auto results = ir::evaluate(f.getBody().front(), inputs);
    EXPECT_TRUE(succeeded(results));
    return *results;
  }

  /// The gradients that @f_backward gives, by name ("dx").
  std::map<std::string, Tensor64> gradients(const Tensors& inputs,
                                            const std::map<std::string, Tensor64>& given) {
    std::map<std::string, Tensor64> values = given;
    auto forward = function("f_forward") ? function("f_forward") : function("f");
    Tensors results = run(forward, inputs);
    for (unsigned i = 0; i < forward.getNumArguments(); ++i)
      values[argumentName(forward, i)] = inputs[i];
    std::map<std::string, std::vector<Tensor64>> saved;
    for (unsigned i = 0; i < forward.getNumResults(); ++i)
      saved[resultName(forward, i)].push_back(results[i]);
    auto backward = function("f_backward");
    Tensors operands;
    for (unsigned i = 0; i < backward.getNumArguments(); ++i) {
      std::string name = argumentName(backward, i);
      auto found = saved.find(name);
      if (found != saved.end() && !found->second.empty()) { // equal names: in order
        operands.push_back(found->second.front());
        found->second.erase(found->second.begin());
      } else {
        operands.push_back(values.at(name));
      }
    }
    Tensors out = run(backward, operands);
    std::map<std::string, Tensor64> named;
    for (unsigned i = 0; i < backward.getNumResults(); ++i)
      named[resultName(backward, i)] = out[i];
    return named;
  }

  /// The sum over results of cotangent * result, of which the backward is the gradient. A result
  /// of -inf, which no input changes, is left out.
  double objective(const Tensors& inputs, const std::map<std::string, Tensor64>& cotangents) {
    const Tensors results = run(function("f"), inputs);
    double total = 0;
    for (unsigned i = 0; i < results.size(); ++i)
      if (auto found = cotangents.find("d" + resultName(function("f"), i));
          found != cotangents.end())
        for (std::int64_t k = 0; k < results[i].size(); ++k)
          if (results[i].data[k] != -std::numeric_limits<double>::infinity())
            total += results[i].data[k] * found->second.data[k];
    return total;
  }

  /// Holds all gradients against central differences of the objective.
  void expectDifferences(Tensors inputs, const std::map<std::string, Tensor64>& cotangents,
                         double tolerance) {
    const auto all = gradients(inputs, cotangents);
    int compared = 0;
    for (unsigned a = 0; a < inputs.size(); ++a) {
      auto found = all.find("d" + argumentName(function("f"), a));
      if (found == all.end())
        continue;
      ASSERT_EQ(found->second.shape, inputs[a].shape) << found->first;
      for (std::int64_t k = 0; k < inputs[a].size(); ++k, ++compared) {
        constexpr double h = 1e-5;
        const double kept = inputs[a].data[k];
        inputs[a].data[k] = kept + h;
        const double above = objective(inputs, cotangents);
        inputs[a].data[k] = kept - h;
        const double below = objective(inputs, cotangents);
        inputs[a].data[k] = kept;
        const double difference = (above - below) / (2 * h);
        EXPECT_NEAR(found->second.data[k], difference, tolerance * (1 + std::abs(difference)))
            << found->first << " at " << k;
      }
    }
    EXPECT_GT(compared, 0);
  }

  static std::string argumentName(mlir::func::FuncOp f, unsigned i) {
    auto name = f.getArgAttrOfType<mlir::StringAttr>(i, ir::kNameAttr);
    return name ? name.str() : fmt::format("in{}", i);
  }
  static std::string resultName(mlir::func::FuncOp f, unsigned i) {
    auto name = f.getResultAttrOfType<mlir::StringAttr>(i, ir::kNameAttr);
    return name ? name.str() : fmt::format("out{}", i);
  }

 private:
  Context context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace kiln::test
