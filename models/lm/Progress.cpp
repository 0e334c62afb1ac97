// See Progress.h.
#include "models/lm/Progress.h"

#include "models/common/Device.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kiln::lm {

Progress::Progress(const Options& options, const dist::Group& group)
    : options(options), device(group.device()), ranks(group.size()), isFirst(group.rank() == 0),
      peakFlops(1e12 * (options.peakTflops > 0 ? options.peakTflops
                        : device.is_cpu()      ? 0
                                               : 800)),
      line(std::filesystem::path(options.out) / "log.jsonl", isFirst) {}

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
  std::string text = fmt::format("step {:>6}/{}  loss {:.4f}  rate {:.2e}  norm {:.3f}  {:.1f} k "
                                 "tokens/s",
                                 figures.step, options.steps, figures.loss, figures.rate,
                                 figures.norm, tokens / 1e3);
  if (peakFlops > 0)
    text += fmt::format("  MFU {:.1f} %", 100 * utilization);
  text += fmt::format("  {:.2f} GiB", memory / 0x1p30);
  line.show(text);
  nlohmann::json entry = {{"step", figures.step},        {"loss", figures.loss},
                          {"rate", figures.rate},        {"norm", figures.norm},
                          {"tokens_per_second", tokens}, {"peak_bytes", memory}};
  if (peakFlops > 0)
    entry["mfu"] = utilization;
  line.note(entry.dump());
  restart(figures.step);
}

void Progress::restart(std::int64_t step) {
  since = step;
  begin = Clock::now();
}

} // namespace kiln::lm
