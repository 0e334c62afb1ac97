// See Progress.h.
#include "models/alphafold/train/Progress.h"

#include "models/common/Device.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kiln::alphafold {

using Json = nlohmann::ordered_json;

Progress::Progress(const TrainOptions& options, const dist::Group& group)
    : options(options), device(group.device()),
      line(options.log.empty() ? std::filesystem::path(options.out) / "log.jsonl"
                               : std::filesystem::path(options.log),
           group.rank() == 0) {}

void Progress::show(std::int64_t done, const Trainer::Step& step, double waited) {
  const double count = double(std::max<std::int64_t>(done - since, 1)),
               seconds = std::chrono::duration<double>(Clock::now() - begin).count() / count,
               waiting = (waited - waitedBefore) / count, memory = models::peakMemory(device),
               norm = step.norm.item<double>();
  Json entry = {{"step", done},         {"loss", step.loss},
                {"lddt_ca", step.lddt}, {"rate", step.rate},
                {"norm", norm},         {"passes", step.passes},
                {"seconds", seconds},   {"waited_seconds", waiting},
                {"peak_bytes", memory}};
  double fape = 0, msa = 0;
  for (const Term& term : step.terms) {
    const double value = term.value.item<double>();
    entry["terms"][term.name] = value;
    fape += term.name.starts_with("fape") ? term.weight * value : 0;
    msa += term.name == "masked_msa" ? value : 0;
  }
  line.show(fmt::format("step {:>6}/{}  loss {:.3f}  fape {:.3f}  msa {:.3f}  lDDT-CA {:.3f}  "
                        "norm {:.2f}  {} passes  {:.3f} s/step  {:.2f} GiB",
                        done, options.steps, step.loss, fape, msa, step.lddt, norm, step.passes,
                        seconds, memory / 0x1p30));
  line.note(entry.dump());
  restart(done, waited);
}

void Progress::show(std::int64_t done, const Trainer::Evaluation& found) {
  line.say(fmt::format("step {:>6}  validation: loss {:.3f}  lDDT-CA {:.3f}  dRMSD {:.2f} A  "
                       "GDT-TS {:.3f}  GDT-HA {:.3f}",
                       done, found.loss, found.lddt, found.drmsd, found.gdtTs, found.gdtHa));
  line.note(Json{{"step", done},
                 {"validation",
                  {{"loss", found.loss},
                   {"lddt_ca", found.lddt},
                   {"drmsd", found.drmsd},
                   {"gdt_ts", found.gdtTs},
                   {"gdt_ha", found.gdtHa}}}}
                .dump());
}

void Progress::restart(std::int64_t done, double waited) {
  since = done;
  waitedBefore = waited;
  begin = Clock::now();
}

} // namespace kiln::alphafold
