// An explanation as text for people.
#include "kiln/cache.h"

#include <fmt/format.h>

namespace kiln::cache {
namespace {

std::string intervalOf(const Time& time) {
  return fmt::format("{:.2f} us ({:.2f}..{:.2f})", time.microseconds, time.low, time.high);
}

std::string ratioOf(const Time& time) {
  return fmt::format("{:.3f} ({:.3f}..{:.3f})", time.ratio, time.ratioLow, time.ratioHigh);
}

std::string choiceText(const Explanation& e) {
  const Entry& choice = e.choice;
  std::string text =
      fmt::format("{} layer: {}, {}\n", e.layer, choice.source,
                  choice.source == "vendor" ? "the vendor's kernel" : choice.schedule);
  text += fmt::format("  because: {}\n", choice.reason);
  if (choice.time) {
    text += fmt::format("  time: {}, {} of the default's", intervalOf(*choice.time),
                        ratioOf(*choice.time));
    if (e.roofline > 0)
      text +=
          fmt::format(", {:.0f}% of the roofline", 100 * e.roofline / choice.time->microseconds);
    text += fmt::format("\n  on: {}, driver {}, host {}\n", choice.time->device,
                        choice.time->driver, choice.time->host);
  }
  text += fmt::format("  when: {}, for {} with NVRTC {}\n", e.when, choice.device,
                      choice.nvrtc.empty() ? "unknown" : choice.nvrtc);
  if (e.runnerUp)
    text += fmt::format("runner-up: {}, the choice takes {} of its time, {}\n",
                        intervalOf(*e.runnerUp), ratioOf(*e.runnerUp), e.runnerUp->schedule);
  if (e.standard)
    text += fmt::format("default: {}, {}\n", intervalOf(*e.standard), e.standard->schedule);
  text += e.copy ? fmt::format("copy of as many bytes: {}\n", intervalOf(*e.copy))
                 : "copy of as many bytes: not measured ('kernel-compile bench --record' does)\n";
  if (!e.whyNotVendor.empty())
    text += fmt::format("why not the vendor's: {}\n", e.whyNotVendor);
  return text;
}

/// Of a miss: what runs without a choice.
std::string modelText(const std::string& kernel, const Candidate& taken, bool isMiss) {
  const Prediction& p = taken.prediction;
  if (isMiss)
    return fmt::format("the cost model would take for {}: {}, {:.2f} us predicted\n", kernel,
                       taken.schedule, p.microseconds);
  return fmt::format(
      "cost model of {}: {:.2f} us; moving {:.0f} bytes {:.2f}, waiting {:.2f} in {:.1f} waves, "
      "starting {:.2f}, summing {:.2f}; {:.0f} KB in flight, occupancy {:.0f}% by {}\n",
      kernel, p.microseconds, double(p.bytesRead + p.bytesWritten), p.moving, p.waiting, p.waves,
      p.starting, p.summing, p.bytesInFlight / 1024, 100 * p.occupancy, p.limitedBy);
}

} // namespace

std::string toText(const Explanation& e) {
  std::string text = fmt::format("key {} of '{}'\n", e.key.substr(0, 12), e.label);
  for (const auto& [name, value] : e.fields)
    text += fmt::format("  {:<9} {}\n", name, value);
  text += e.layer.empty() ? fmt::format("miss: {}\n", e.miss) : choiceText(e);
  if (!e.ended.empty()) {
    text += fmt::format("search: ended after {:.1f} s, {}; {} of {} schedules timed", e.seconds,
                        e.ended, e.tried, e.feasible);
    text +=
        e.place < 0 ? "\n" : fmt::format(", the choice is the model's number {}\n", e.place + 1);
  }
  for (const auto& [kernel, taken] : e.model)
    text += modelText(kernel, taken, e.layer.empty());
  for (const Rejection& rejection : e.rejections)
    text += fmt::format("rejected: {} by {}, as {}\n", rejection.count, rejection.reason,
                        rejection.worst);
  for (const std::string& failure : e.failures)
    text += "failed: " + failure + "\n";
  return text;
}

} // namespace kiln::cache
