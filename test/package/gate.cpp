// A fused sigmoid gate, y = x / (1 + exp(-g)), compiled, inspected and run without Torch.
#include <kiln/kiln.h>

#include <cmath>
#include <cstdio>
#include <vector>

int main() try {
  auto module = kiln::Module::parse(R"(
    func.func @gate(%x: tensor<?x128xf32>, %g: tensor<?x128xf32>) -> tensor<?x128xf32> {
      %one = arith.constant dense<1.0> : tensor<f32>
      %ones = kiln.broadcast %one dims [] like %x : tensor<f32> -> tensor<?x128xf32>
      %n = arith.negf %g : tensor<?x128xf32>
      %e = math.exp %n : tensor<?x128xf32>
      %d = arith.addf %e, %ones : tensor<?x128xf32>
      %y = arith.divf %x, %d : tensor<?x128xf32>
      return %y : tensor<?x128xf32>
    })");
  kiln::CompileOptions options;
  options.until = kiln::Stage::cuda; // the host target needs the source only
  auto program = kiln::Program::compile(module, options);

  const std::int64_t rows = 10, width = 128;
  std::vector<float> x(rows * width, 3.0F), g(rows * width, 0.5F), y(rows * width);
  kiln::Buffer inputs[] = {{x.data(), {rows, width}, {}}, {g.data(), {rows, width}, {}}};
  kiln::Buffer outputs[] = {{y.data(), {rows, width}, {}}};
  program.runOnHost(inputs, outputs);
  // With a GPU: compile to the end, then kiln::Executable(program) and
  //   executable.launch(inputs, outputs, workspace, stream);   // device pointers, any stream

  float expected = 3.0F / (1.0F + std::exp(-0.5F));
  for (float value : y)
    if (std::abs(value - expected) > 1e-5F)
      return std::printf("wrong: %f instead of %f\n", value, expected), 1;
  std::printf("gate: %zu kernel, y = %f\n", program.kernels().size(), y[0]);
} catch (const kiln::Error& error) {
  return std::printf("%s\n", error.what()), 1;
}
