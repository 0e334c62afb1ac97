// What training in several ranks costs, a line of JSON each, from rank 0:
//   sweep   all-reduce of 1 KiB and more: time, and bandwidths by nccl-tests' definition (of the
//           bus: 2 (n - 1) / n of bytes over time)
//   steps   a language model's training step without sums and in the modes of DataParallel,
//           sharded (ShardedOptimizer) and fully-sharded (FullyShard by layers): for each step the
//           least time over ranks of forward, of backward with its sums and of the whole, as means
//           over steps, and the most memory; replicas must end with the same parameters
//   buckets the same, overlapped, by bucket size
//   kernels a bucket's kernels, by bucket size, beside copies of as many bytes, on one rank
//   memory  at five points of a first step, replicated or --sharded, by rank 0: one a process
//
//   dist --what=sweep --nproc=2 [--device=cpu] [--most-mib=1024]
//   dist --what=steps --nproc=2 --model=tiny --batch=4 --context=64 [--precision=bf16]
// dist.py measures Python's DDP; a launcher's variables work as for every program of kiln::dist.
#include "bench/DistKernels.h"
#include "models/common/Device.h"
#include "models/common/Fail.h"
#include "models/common/Graph.h"
#include "models/common/Precision.h"
#include "models/common/Program.h"
#include "models/common/Ranks.h"
#include "models/lm/Model.h"
#include "models/lm/Progress.h"

#include <CLI/CLI.hpp>
#include <c10/core/CachingDeviceAllocator.h>
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <kiln/dist/fully_shard.h>
#include <kiln/dist/sharded_optimizer.h>
#include <kiln/optim.h>
#include <kiln/torch.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

using namespace kiln;
using models::synchronize;
using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

namespace {

struct Given {
  std::string what = "sweep", device, model = "tiny", precision = "fp32", wire = "as-is",
              transport = "auto",
              modes = "none,per-parameter,flat,bucketed,overlapped,sharded,fully-sharded";
  std::int64_t nproc = 0, mostMib = 1024, peerKib = 0, batch = 4, context = 0, steps = 200,
               vocabulary = 10'000;
  bool sharded = false, graphs = false;
  std::vector<double> bucketMibs = {1, 10, 25, 100, 1000};
};

double millisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// Bytes that tensors take, or, on a CPU, that the process has in memory.
double bytesNow(at::Device device) {
  if (device.is_cuda())
    return double(c10::getDeviceAllocator(device.type())
                      ->getDeviceStats(device.index())
                      .allocated_bytes[0]
                      .current);
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  file >> all >> resident;
  return resident * double(sysconf(_SC_PAGESIZE));
}

class Bench {
 public:
  Bench(const Given& given, std::shared_ptr<dist::Group> group)
      : given(given), group(std::move(group)), device(this->group->device()) {}

  void sweep();
  void steps(const std::string& mode, double bucketMib);
  void memory(bool sharded);
  void kernels(double bucketMib);

 private:
  struct Times {
    double forward = 0, backward = 0, step = 0;
  };
  /// A model with what sums its gradients and updates it.
  struct Training {
    lm::Transformer model{nullptr};
    std::unique_ptr<dist::DataParallel> parallel;
    std::unique_ptr<dist::FullyShard> shard;
    std::unique_ptr<torch::optim::Optimizer> optimizer;
  };
  Training makeTraining(const std::string& mode, double bucketMib) const;
  lm::Transformer makeModel() const;
  at::Tensor draw(const lm::Transformer& model) const;
  at::Tensor loss(lm::Transformer& model, const at::Tensor& tokens,
                  dist::FullyShard* shard = nullptr) const;
  void checkAlike(const torch::nn::Module& model) const;
  double timed(std::int64_t bytes, const std::function<dist::Pending()>& sum) const;
  void print(ordered_json line) const {
    if (group->rank() == 0)
      std::cout << line.dump() << std::endl;
  }

  Given given;
  std::shared_ptr<dist::Group> group;
  at::Device device;
};

/// Microseconds of one sum, the mean of many in a row, on the slowest rank.
double Bench::timed(std::int64_t bytes, const std::function<dist::Pending()>& sum) const {
  // Some ms at least: GPUs' ranks begin up to some 100 us apart. CPUs take as long for fewer bytes.
  const auto [few, many] = device.is_cuda() ? std::pair(64, 1024) : std::pair(1, 64); // MiB
  const int times = bytes < few << 20 ? 200 : bytes < many << 20 ? 20 : 5;
  for (int i = 0; i < 5; ++i)
    sum().wait();
  // A barrier on the device, as dist.py has it: ranks begin together.
  group->allReduce(at::zeros({1}, at::TensorOptions().device(device))).wait();
  synchronize(device);
  const auto begin = Clock::now();
  for (int i = 0; i < times; ++i)
    sum().wait();
  synchronize(device);
  return group->largest(millisecondsSince(begin) * 1e3 / times);
}

void Bench::sweep() {
  for (std::int64_t bytes = 1024; bytes <= given.mostMib << 20; bytes *= 4) {
    const at::Tensor tensor = group->buffer(bytes / 4, at::kFloat);
    const auto line = [&](const char* by, const std::function<dist::Pending()>& sum) {
      const double us = timed(bytes, sum), rate = double(bytes) / us / 1e3, n = group->size();
      print({{"what", "all-reduce"},
             {"source", "Kiln"},
             {"by", by},
             {"ranks", n},
             {"device", device.str()},
             {"bytes", bytes},
             {"microseconds", us},
             {"algorithm_gb_per_s", rate},
             {"bus_gb_per_s", rate * 2 * (n - 1) / n}});
    };
    line(bytes <= group->peerBytes() ? "peers"
         : device.is_cuda()          ? "nccl"
                                     : "gloo",
         [&] { return group->allReduce(tensor, dist::Sum::plain, dist::Order::inStream); });
    if (device.is_cuda() && bytes > group->peerBytes()) // as training does, beside its own kernels
      line("nccl-beside", [&] { return group->allReduce(tensor); });
    if (group->goesByCopyEngines(tensor))
      line("copy-engines", [&] { return group->sumOfParts(tensor, {}, 1); });
  }
}

lm::Transformer Bench::makeModel() const {
  lm::ModelConfig config = lm::ModelConfig::named(given.model);
  config.vocabulary = given.vocabulary;
  if (given.context > 0)
    config.context = given.context;
  at::manual_seed(1);
  lm::Transformer model(config);
  model->to(device);
  return model;
}

at::Tensor Bench::draw(const lm::Transformer& model) const {
  return at::randint(given.vocabulary, {given.batch, model->config.context + 1}, at::kLong)
      .to(device);
}

/// The model's own forward, each layer within FullyShard::run(), which reads what its parameters
/// are.
at::Tensor shardedForward(lm::Transformer& model, dist::FullyShard& shard,
                          const at::Tensor& tokens) {
  const lm::Turns turns = model->turnsOf(tokens);
  const auto dtype = model->layers[0]->parameters()[0].scalar_type();
  at::Tensor x = model->embeddings(tokens).to(dtype);
  std::size_t i = 0;
  for (const auto& layer : *model->layers) {
    auto& block = *layer->as<lm::Block>();
    x = shard.run(
        i++, [&](const at::Tensor& in) { return block.forward({in, {}}, turns).total(); }, x);
  }
  return model->head(std::get<0>(model->norm(lm::Stream{x.to(at::kFloat), {}})));
}

at::Tensor Bench::loss(lm::Transformer& model, const at::Tensor& tokens,
                       dist::FullyShard* shard) const {
  const models::Autocast autocast(device.type(), models::Autocast::of(given.precision));
  const at::Tensor seen = tokens.slice(1, 0, -1);
  const at::Tensor logits = shard ? shardedForward(model, *shard, seen) : model(seen);
  return lm::crossEntropy(logits.flatten(0, 1), tokens.slice(1, 1).flatten());
}

/// Throws if a rank's parameters have other bits than rank 0's.
void Bench::checkAlike(const torch::nn::Module& model) const {
  for (const auto& one : model.named_parameters()) {
    const at::Tensor first = one.value().detach().clone();
    group->broadcast(first).wait();
    if (group->largest(at::equal(first, one.value()) ? 0 : 1) > 0)
      models::fail(ErrorKind::verification, "{} differs between ranks after the steps", one.key());
  }
}

Bench::Training Bench::makeTraining(const std::string& mode, double bucketMib) const {
  Training made;
  made.model = makeModel();
  const torch::optim::AdamWOptions adamw(1e-4);
  if (mode == "fully-sharded") {
    std::vector<std::shared_ptr<torch::nn::Module>> layers(made.model->layers->begin(),
                                                           made.model->layers->end());
    dist::FullyShardOptions options;
    if (given.precision == "bf16")
      options.compute = at::kBFloat16;
    made.shard = std::make_unique<dist::FullyShard>(*made.model, layers, group, options);
    made.optimizer = std::make_unique<optim::AdamW>(made.shard->parameters(), adamw);
    return made;
  }
  const bool sharded = mode == "sharded";
  if (mode != "none") {
    auto chosen = models::dataParallelOptions(
        {.reduce = sharded ? "overlapped" : mode, .wire = given.wire, .bucketMib = bucketMib});
    chosen.sharded = sharded;
    made.parallel = std::make_unique<dist::DataParallel>(*made.model, group, chosen);
  }
  if (sharded) {
    auto optimizer = std::make_unique<dist::ShardedOptimizer>(
        *made.parallel, made.model->parameters(), adamw,
        dist::ShardedOptions{.gather = dist::Gather::whenNeeded});
    made.model->before = [&of = *optimizer](const torch::nn::Module& part) { of.need(part); };
    made.optimizer = std::move(optimizer);
  } else {
    made.optimizer = std::make_unique<optim::AdamW>(made.model->parameters(), adamw);
  }
  return made;
}

void Bench::steps(const std::string& mode, double bucketMib) {
  if (given.graphs && mode == "fully-sharded")
    models::fail(ErrorKind::input, "--graphs with --modes=fully-sharded: parameters are gathered "
                                   "by the host, step by step; leave one of the two out");
  auto [model, parallel, shard, optimizer] = makeTraining(mode, bucketMib);
  models::resetPeakMemory(device);
  at::manual_seed(100 + std::uint64_t(group->rank()));
  constexpr int warmup = 5;
  Times mean;
  const at::Tensor tokens = draw(model);
  std::unique_ptr<models::StepGraph> graph;
  for (std::int64_t step = -warmup; step < given.steps; ++step) {
    synchronize(device);
    group->barrier();
    const auto begin = Clock::now();
    double forward = 0, backward = 0;
    if (given.graphs && step == -1)
      graph = std::make_unique<models::StepGraph>(device, [&] {
        loss(model, tokens, shard.get()).backward();
        optimizer->step();
        optimizer->zero_grad();
      });
    if (graph) {
      graph->replay();
    } else {
      const at::Tensor one = loss(model, tokens, shard.get());
      synchronize(device);
      forward = millisecondsSince(begin);
      one.backward();
      synchronize(device);
      backward = millisecondsSince(begin) - forward;
      optimizer->step();
      optimizer->zero_grad();
    }
    synchronize(device);
    const double whole = millisecondsSince(begin);
    const auto least = [&](double value) { return -group->largest(-value); };
    const Times here = {least(forward), least(backward), least(whole)};
    if (step < 0)
      continue;
    mean.forward += here.forward / double(given.steps);
    mean.backward += here.backward / double(given.steps);
    mean.step += here.step / double(given.steps);
  }
  if (auto* sharded = dynamic_cast<dist::ShardedOptimizer*>(optimizer.get()))
    sharded->need(*model);
  if (parallel)
    checkAlike(*model);
  print({{"what", "step"},
         {"source", "Kiln"},
         {"mode", mode},
         {"bucket_mib", bucketMib},
         {"wire", given.wire},
         {"transport", given.transport},
         {"graphs", given.graphs},
         {"model", given.model},
         {"parameters", model->config.parameters()},
         {"batch", given.batch},
         {"context", model->config.context},
         {"precision", given.precision},
         {"ranks", group->size()},
         {"device", device.str()},
         {"steps", given.steps},
         {"forward_ms", mean.forward},
         {"backward_ms", mean.backward},
         {"step_ms", mean.step},
         {"peak_gib", models::peakMemory(device) / 0x1p30}});
}

/// Of gradients as long as the model's.
void Bench::kernels(double bucketMib) {
  if (group->size() > 1)
    models::fail(ErrorKind::input, "--what=kernels runs on one rank, not on {}", group->size());
  std::vector<std::int64_t> lengths;
  for (const at::Tensor& parameter : makeModel()->parameters())
    lengths.push_back(parameter.numel());
  bench::benchDistKernels(lengths, bucketMib, device,
                          [&](ordered_json line) { print(std::move(line)); });
}

void Bench::memory(bool sharded) {
  const double before = bytesNow(device);
  ordered_json line = {{"what", "memory"},     {"source", "Kiln"},       {"sharded", sharded},
                       {"model", given.model}, {"ranks", group->size()}, {"device", device.str()}};
  const auto note = [&](const char* point) {
    synchronize(device);
    line[std::string(point) + "_mib"] = (bytesNow(device) - before) / 0x1p20;
  };
  note("start");
  lm::Transformer model = makeModel();
  dist::DataParallel parallel(*model, group, {.sharded = sharded});
  const torch::optim::AdamWOptions adamw(1e-4);
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  if (sharded)
    optimizer = std::make_unique<dist::ShardedOptimizer>(parallel, model->parameters(), adamw);
  else
    optimizer = std::make_unique<optim::AdamW>(model->parameters(), adamw);
  note("model");
  at::Tensor one = loss(model, draw(model));
  note("forward");
  one.backward();
  one.reset();
  note("backward");
  optimizer->step();
  note("step");
  print(line);
}

void run(const Given& given) {
  const auto group =
      models::startGroup({.transport = given.transport, .peerKib = given.peerKib}, given.device);
  models::setPrecision(given.precision == "fp32" ? "tf32" : given.precision, false);
  if (group->device().is_cuda())
    enable();
  Bench bench(given, group);
  if (given.what == "sweep")
    bench.sweep();
  if (given.what == "steps")
    for (const std::string& mode : CLI::detail::split(given.modes, ','))
      bench.steps(mode, 0);
  if (given.what == "buckets")
    for (const double mib : given.bucketMibs)
      bench.steps("overlapped", mib);
  if (given.what == "kernels")
    for (const double mib : given.bucketMibs)
      bench.kernels(mib);
  if (given.what == "memory")
    bench.memory(given.sharded);
}

} // namespace

int main(int argc, char** argv) try {
  Given given;
  CLI::App app("What training in several ranks costs.", "dist");
  app.add_option("--what", given.what)
      ->check(CLI::IsMember({"sweep", "steps", "buckets", "kernels", "memory"}))
      ->capture_default_str();
  app.add_option("--nproc", given.nproc, "ranks to start; 0: as a launcher says");
  app.add_option("--device", given.device, "cpu or cuda; empty: GPUs if there are any");
  app.add_option("--most-mib", given.mostMib)->capture_default_str();
  app.add_option("--peer-kib", given.peerKib,
                 "of GPUs' shared memory, where it is faster; 0: none");
  app.add_option("--transport", given.transport, "auto, nccl or copy-engines: of buffers");
  app.add_option("--model", given.model)->capture_default_str();
  app.add_option("--batch", given.batch)->capture_default_str();
  app.add_option("--context", given.context, "0: the model's");
  app.add_option("--vocabulary", given.vocabulary)->capture_default_str();
  app.add_option("--precision", given.precision, "fp32 (products in tf32) or bf16");
  app.add_option("--wire", given.wire, "as-is or bf16");
  app.add_option("--steps", given.steps)->capture_default_str();
  app.add_flag("--graphs", given.graphs, "replays whole steps as CUDA graphs, timed as a whole");
  app.add_flag("--sharded", given.sharded, "of memory");
  app.add_option("--modes", given.modes)->capture_default_str();
  app.add_option("--bucket-mib", given.bucketMibs)->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  models::keepFreedMemory();
  if (models::startsRanks(given.nproc))
    return dist::launch(argc, argv, {.ranks = int(given.nproc)});
  run(given);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "dist: " << error.what() << '\n';
  return 1;
}
