// See Progress.h.
#include "models/lm/Progress.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <unistd.h>

namespace kiln::lm {

double peakMemory(at::Device device) {
  if (device.is_cpu()) {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return double(usage.ru_maxrss) * 1024;
  }
  constexpr auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  return double(stats.allocated_bytes[all].peak);
}

Progress::Progress(const Options& options, const dist::Group& group)
    : options(options), device(group.device()), ranks(group.size()), isFirst(group.rank() == 0),
      peakFlops(1e12 * (options.peakTflops > 0 ? options.peakTflops
                        : device.is_cpu()      ? 0
                                               : 800)),
      isTerminal(isatty(STDOUT_FILENO) != 0),
      log(isFirst ? (std::filesystem::path(options.out) / "log.jsonl").string() : "/dev/null",
          std::ios::app) {}

Progress::~Progress() {
  if (isOpen)
    std::puts("");
}

void Progress::show(const Figures& figures) {
  if (!isFirst)
    return;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const double tokens = double((figures.step - since) * ranks * options.batch * options.accumulate *
                               options.model.context) /
                        seconds;
  const double utilization =
      peakFlops > 0 ? tokens / ranks * options.model.flopsPerToken() / peakFlops : 0;
  const double memory = peakMemory(device);
  std::string line = fmt::format("step {:>6}/{}  loss {:.4f}  rate {:.2e}  norm {:.3f}  {:.1f} k "
                                 "tokens/s",
                                 figures.step, options.steps, figures.loss, figures.rate,
                                 figures.norm, tokens / 1e3);
  if (peakFlops > 0)
    line += fmt::format("  MFU {:.1f} %", 100 * utilization);
  line += fmt::format("  {:.2f} GiB", memory / 0x1p30);
  std::printf(isTerminal ? "\r\033[K%s" : "%s\n", line.c_str());
  std::fflush(stdout);
  isOpen = isTerminal;
  nlohmann::json entry = {{"step", figures.step},        {"loss", figures.loss},
                          {"rate", figures.rate},        {"norm", figures.norm},
                          {"tokens_per_second", tokens}, {"peak_bytes", memory}};
  if (peakFlops > 0)
    entry["mfu"] = utilization;
  log << entry.dump() << std::endl;
  restart(figures.step);
}

void Progress::restart(std::int64_t step) {
  since = step;
  begin = Clock::now();
}

void Progress::say(const std::string& text) {
  if (!isFirst)
    return;
  std::printf("%s%s\n", isOpen ? "\n" : "", text.c_str());
  std::fflush(stdout);
  isOpen = false;
}

} // namespace kiln::lm
