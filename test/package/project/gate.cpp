// A fused sigmoid gate, y = x / (1 + exp(-g)), compiled and run without Torch.
#include <kiln/kiln.h>

#include <cmath>
#include <cstdio>
#include <vector>

static const char* gate = R"(
func.func @gate(%x: tensor<?x128xf32>, %g: tensor<?x128xf32>) -> tensor<?x128xf32> {
  %one = arith.constant dense<1.0> : tensor<f32>
  %ones = kiln.broadcast %one dims [] like %x
      : tensor<f32>, tensor<?x128xf32> -> tensor<?x128xf32>
  %n = arith.negf %g : tensor<?x128xf32>
  %e = math.exp %n : tensor<?x128xf32>
  %d = arith.addf %e, %ones : tensor<?x128xf32>
  %y = arith.divf %x, %d : tensor<?x128xf32>
  return %y : tensor<?x128xf32>
})";

// On a GPU: device pointers, any stream, any number of rows; safe inside graph capture.
void launchGate(const kiln::Executable& kernel, float* x, float* g, float* y, std::int64_t rows,
                void* stream) {
  kiln::Buffer inputs[] = {{x, {rows, 128}, {}}, {g, {rows, 128}, {}}};
  kiln::Buffer outputs[] = {{y, {rows, 128}, {}}};
  kernel.launch(inputs, outputs, nullptr, stream);
}

int main() try {
  auto program = kiln::Program::compile(kiln::Module::parse(gate));
  std::printf("%s: %d registers\n", program.kernels()[0].name.c_str(),
              program.kernels()[0].usage.registers);

  // Without one: the same kernel, executed on the host.
  std::vector<float> x(10 * 128, 3.0F), g(10 * 128, 0.5F), y(10 * 128);
  kiln::Buffer inputs[] = {{x.data(), {10, 128}, {}}, {g.data(), {10, 128}, {}}};
  kiln::Buffer outputs[] = {{y.data(), {10, 128}, {}}};
  program.runOnHost(inputs, outputs);
  std::printf("%f, expected %f\n", y[0], 3.0F / (1.0F + std::exp(-0.5F)));
  return std::abs(y[0] - 3.0F / (1.0F + std::exp(-0.5F))) < 1e-5F ? 0 : 1;
} catch (const kiln::Error& error) {
  std::printf("%s\n", error.what());
  return 1;
}
