// An explanation as text for people.
#include "codegen/backend/FormatPrintable.h"
#include "kiln/cache.h"

namespace kiln::cache {
namespace {

std::string intervalOf(const Time& time) {
  return formatPrintable("{:.2f} us ({:.2f}..{:.2f})", time.microseconds, time.low, time.high);
}

std::string ratioOf(const Time& time) {
  return formatPrintable("{:.3f} ({:.3f}..{:.3f})", time.ratio, time.ratioLow, time.ratioHigh);
}

std::string choiceText(const Explanation& e) {
  const Entry& choice = e.choice;
  std::string text =
      formatPrintable("{} layer: {}, {}\n", e.layer, choice.source,
                      choice.source == "vendor" ? "the vendor's kernel" : choice.schedule);
  text += formatPrintable("  because: {}\n", choice.reason);
  if (choice.time) {
    text += formatPrintable("  time: {}, {} of the default's", intervalOf(*choice.time),
                            ratioOf(*choice.time));
    if (e.roofline > 0)
      text += formatPrintable(", {:.0f}% of the roofline{}",
                              100 * e.roofline / choice.time->microseconds,
                              e.rooflineLimit.empty() ? "" : " (" + e.rooflineLimit + ")");
    text += formatPrintable("\n  on: {}, driver {}, host {}\n", choice.time->device,
                            choice.time->driver, choice.time->host);
  }
  text += formatPrintable("  when: {}, for {} with NVRTC {}\n", e.when, choice.device,
                          choice.nvrtc.empty() ? "unknown" : choice.nvrtc);
  if (e.runnerUp)
    text += formatPrintable("runner-up: {}, the choice takes {} of its time, {}\n",
                            intervalOf(*e.runnerUp), ratioOf(*e.runnerUp), e.runnerUp->schedule);
  if (e.standard)
    text += formatPrintable("default: {}, {}\n", intervalOf(*e.standard), e.standard->schedule);
  text += e.copy ? formatPrintable("copy of as many bytes: {}\n", intervalOf(*e.copy))
                 : "copy of as many bytes: not measured ('kernel-compile bench --record' does)\n";
  if (!e.whyNotVendor.empty())
    text += formatPrintable("why not the vendor's: {}\n", e.whyNotVendor);
  return text;
}

/// Of a miss: what runs without a choice.
std::string modelText(const std::string& kernel, const Candidate& taken, bool isMiss) {
  const Prediction& p = taken.prediction;
  if (isMiss)
    return formatPrintable("the cost model would take for {}: {}, {:.2f} us predicted\n", kernel,
                           taken.schedule, p.microseconds);
  return formatPrintable(
      "cost model of {}: {:.2f} us; moving {:.0f} bytes {:.2f}, waiting {:.2f} in {:.1f} waves, "
      "starting {:.2f}, summing {:.2f}; {:.0f} KB in flight, occupancy {:.0f}% by {}\n",
      kernel, p.microseconds, double(p.bytesRead + p.bytesWritten), p.moving, p.waiting, p.waves,
      p.starting, p.summing, p.bytesInFlight / 1024, 100 * p.occupancy, p.limitedBy);
}

} // namespace

std::string toText(const Explanation& e) {
  std::string text = formatPrintable("key {} of '{}'\n", e.key.substr(0, 12), e.label);
  for (const auto& [name, value] : e.fields)
    text += formatPrintable("  {:<9} {}\n", name, value);
  text += e.layer.empty() ? formatPrintable("miss: {}\n", e.miss) : choiceText(e);
  if (!e.ended.empty()) {
    text += formatPrintable("search: ended after {:.1f} s, {}; {} of {} schedules timed", e.seconds,
                            e.ended, e.tried, e.feasible);
    text += e.place < 0 ? "\n"
                        : formatPrintable(", the choice is the model's number {}\n", e.place + 1);
  }
  for (const auto& [kernel, taken] : e.model)
    text += modelText(kernel, taken, e.layer.empty());
  for (const Rejection& rejection : e.rejections)
    text += formatPrintable("rejected: {} by {}, as {}\n", rejection.count, rejection.reason,
                            rejection.worst);
  for (const std::string& failure : e.failures)
    text += formatPrintable("failed: {}\n", failure);
  return text;
}

} // namespace kiln::cache
