// What a router costs the host, apart from kernels: calls of LibTorch's own ops on few numbers of
// the CPU, before there are routers (`aten`), with Kiln off (`off`), of a call that it leaves to
// ATen because no store has a faster kernel (`left`), of one that it does not take (`refused`), and
// of one that it takes (`taken`, with the host target's kernel, which is most of it). Needs no GPU.
//   host_cost [--benchmark_filter=...]
// What a taken call costs but for its kernel, in instructions:
//   valgrind --tool=callgrind --toggle-collect='*::Router<*>::run(*' host_cost
//       --benchmark_filter=layer_norm/taken --benchmark_min_time=0.01
//   callgrind_annotate --inclusive=yes callgrind.out.* | grep -E 'PROGRAM TOTALS|Kernel::launch'
#include "kiln/torch.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/utils.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

using at::Tensor;

namespace {

constexpr std::int64_t rows = 4, width = 16;

struct Op {
  const char* name;
  const char* state; // of its calls once Kiln is on
  std::function<Tensor()> call;
};

std::vector<Op> opsOn(const Tensor& x) {
  const Tensor weight = at::ones({width}), mean = at::zeros({rows, 1}), rstd = at::ones({rows, 1});
  const Tensor y = at::softmax(x, 1), kept = at::ones({rows, width}, at::kBool);
  const Tensor fp64 = x.to(at::kDouble), each = at::ones({rows, 1});
  return {
      {"silu", "left", [=] { return at::silu(x); }},
      {"silu_fp64", "refused", [=] { return at::silu(fp64); }},
      {"silu_backward", "left", [=] { return at::silu_backward(x, x); }},
      {"layer_norm", "taken",
       [=] { return std::get<0>(at::native_layer_norm(x, {width}, weight, weight, 1e-5)); }},
      {"layer_norm_backward", "taken",
       [=] {
         return std::get<0>(at::native_layer_norm_backward(x, x, {width}, mean, rstd, weight,
                                                           weight, {true, true, true}));
       }},
      {"rms_norm", "taken", [=] { return at::rms_norm(x, {width}, weight, 1e-5); }},
      {"softmax", "taken", [=] { return at::_softmax(x, 1, false); }},
      {"softmax_backward", "taken",
       [=] { return at::_softmax_backward_data(x, y, 1, at::kFloat); }},
      {"dropout", "taken", [=] { return std::get<0>(at::native_dropout(x, 0.1, true)); }},
      {"dropout_backward", "taken", [=] { return at::native_dropout_backward(x, kept, 1.1); }},
      {"rsqrt_of_rows", "passed on", [=] { return at::rsqrt(each); }},
      {"mean_of_rows", "passed on", [=] { return at::mean(x, {1}, true); }},
      {"rsqrt", "passed on", [=] { return at::rsqrt(x); }},
  };
}

void time(benchmark::State& state, const Op& op) {
  const torch::NoGradGuard forward; // of autograd nothing is timed
  for (auto _ : state)
    benchmark::DoNotOptimize(op.call());
}

/// Kiln on, and what the op asks for compiled.
void ready(const Op& op) {
  kiln::Options options = kiln::Options::fromEnvironment();
  options.place = kiln::Place::cpu;
  kiln::enable(options);
  op.call();
  kiln::wait();
}

void registerAll(const std::vector<Op>& ops) {
  for (const Op& op : ops) // first: routers stay
    benchmark::RegisterBenchmark((std::string(op.name) + "/aten").c_str(),
                                 [&op](benchmark::State& state) { time(state, op); });
  for (const Op& op : ops) {
    benchmark::RegisterBenchmark((std::string(op.name) + "/off").c_str(),
                                 [&op](benchmark::State& state) {
                                   ready(op);
                                   kiln::disable();
                                   time(state, op);
                                 });
    benchmark::RegisterBenchmark((std::string(op.name) + "/" + op.state).c_str(),
                                 [&op](benchmark::State& state) {
                                   ready(op);
                                   time(state, op);
                                 });
  }
}

} // namespace

int main(int count, char** given) try {
  benchmark::Initialize(&count, given);
  if (benchmark::ReportUnrecognizedArguments(count, given))
    return 2;
  at::set_num_threads(1);
  at::manual_seed(1);
  const std::vector<Op> ops = opsOn(at::randn({rows, width}));
  registerAll(ops);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
} catch (const kiln::Error& error) {
  std::fprintf(stderr, "host_cost: %s\n", error.what());
  return 1;
}
