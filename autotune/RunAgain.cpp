// kiln::bench, kiln::verifyChoices, kiln::regress: what a store has chosen, run again in a worker.
#include "autotune/Key.h"
#include "autotune/Public.h"
#include "autotune/Workers.h"
#include "autotune/recheck/Recheck.h"
#include "autotune/store/Names.h"
#include "codegen/backend/Driver.h"
#include "codegen/backend/Fail.h"
#include "codegen/backend/Target.h"
#include "kiln/tune.h"

#include <algorithm>
#include <set>

namespace kiln {

using namespace autotune;

namespace {

/// The device at hand, as keys name it.
struct Here {
  std::string arch, device;
  explicit Here(const std::string& wanted) {
    if (isSimulated(wanted)) {
      device = "simulated";
      return;
    }
    const DeviceInfo& info = Driver::get().currentDevice();
    arch = targetOfCapability(info.major, info.minor).arch;
    device = deviceClass(info.name, info.multiprocessors);
  }
  bool fits(const Key& key) const {
    return key.device == device && (arch.empty() || key.arch == arch);
  }
};

/// Those asked for, or all of the device at hand; what one kernel is chosen for twice, for fixed
/// sizes and for the general function, once.
std::vector<Subject> subjectsOf(const Store& store, const RecheckOptions& options) {
  const Here here(options.device);
  std::vector<KnownKey> keys;
  for (const std::string& digits : options.keys)
    keys.push_back(store.keyStartingWith(digits));
  std::set<std::string> repeated;
  for (const auto& [fixed, general] : store.generals())
    repeated.insert(general);
  if (options.keys.empty())
    for (KnownKey& known : store.keys())
      if (here.fits(known.key) && !repeated.contains(known.digest))
        keys.push_back(std::move(known));
  if (keys.empty())
    fail(ErrorKind::missing,
         "nothing in '{}' was chosen for {}; 'kernel-compile cache ls' lists what was",
         store.database().name(), here.device);
  std::vector<Subject> subjects;
  for (const KnownKey& known : keys) {
    Subject& subject = subjects.emplace_back(subjectOf(store, known));
    if (!here.fits(known.key))
      subject.trouble = fmt::format("is for {} ({}), at hand is {}", known.key.device,
                                    known.key.arch, here.device);
  }
  return subjects;
}

void introduce(Rechecked& result, const Subject& subject) {
  result.key = subject.known.digest;
  result.label = subject.known.label;
  result.trouble = subject.trouble;
  if (!subject.history.choice)
    return;
  result.source = nameIn(sourceNames, subject.choice().source);
  result.schedule = subject.choice().schedule;
}

/// Runs `work` for each key, with a device that is opened for the first that can be run.
template <class Result, class Work>
std::vector<Result> eachKey(const std::filesystem::path& path, const RecheckOptions& options,
                            Work work) {
  requireDevice(options.device, options.worker);
  Store::open(path, Store::Access::read); // is not made for this
  auto store = Store::open(path, options.record ? Store::Access::write : Store::Access::read);
  const std::vector<Subject> subjects = subjectsOf(*store, options);
  auto device = workersOf(options.worker, options.device)();
  Recheck recheck(*store, *device, static_cast<std::size_t>(options.rounds));
  std::vector<Result> results;
  for (const Subject& subject : subjects) {
    if (options.isStopped && options.isStopped())
      break;
    Result& result = results.emplace_back();
    introduce(result, subject);
    if (result.trouble.empty())
      work(*store, recheck, subject, result);
    if (options.progress)
      options.progress(results.size(), subjects.size(), result.label);
  }
  return results;
}

/// Also where the same kernel is chosen for the general function.
void judge(Store& store, const KnownKey& known, const Verdict& verdict) {
  const std::map<std::string, std::string> generals = store.generals();
  const auto general = generals.find(known.digest);
  store.judge(known.key, verdict);
  if (general != generals.end())
    store.judge(store.keyStartingWith(general->second).key, verdict);
}

Retimed timeAgain(Store& store, Recheck& recheck, const Subject& subject, bool isKept,
                  BenchResult& result) {
  Retimed now = recheck.time(subject);
  result.trouble = now.trouble;
  if (!now.trouble.empty())
    return now;
  result.chosen = timeOf(now.chosen);
  result.standard = timeOf(now.standard);
  result.copy = timeOf(now.copy);
  for (const auto& baseline : subject.history.baselines)
    if (!result.vendor || baseline.median < result.vendor->microseconds)
      result.vendor = timeOf(baseline);
  result.roofline = subject.search() ? subject.search()->roofline : 0;
  if (isKept) {
    store.measure(subject.known.key, now.chosen);
    if (now.standard.schedule != now.chosen.schedule)
      store.measure(subject.known.key, now.standard);
    store.copied(subject.known.key, now.copy);
  }
  return now;
}

std::string regressionOf(const Subject& subject, const Retimed& now, double tolerance) {
  const autotune::Measurement* record = subject.record();
  const autotune::Measurement& chosen = now.chosen;
  switch (changeOf(subject, now, tolerance)) {
  case Change::slower: {
    const std::string& driver = record->conditions.driver;
    return fmt::format("takes {:.2f} [{:.2f}, {:.2f}] us, recorded are {:.2f} [{:.2f}, {:.2f}] us"
                       "{}",
                       chosen.median, chosen.low, chosen.high, record->median, record->low,
                       record->high,
                       driver == chosen.conditions.driver ? "" : " with driver " + driver);
  }
  case Change::defaultIsFaster: {
    const Interval& ratio = now.toDefault.ratio;
    return fmt::format("takes {:.3f} [{:.3f}, {:.3f}] of the default's time", ratio.middle,
                       ratio.low, ratio.high);
  }
  case Change::none:
  case Change::unknown:
    return "";
  }
  return "";
}

} // namespace

std::vector<BenchResult> bench(const std::filesystem::path& store, const RecheckOptions& options) {
  return eachKey<BenchResult>(
      store, options,
      [&](Store& into, Recheck& recheck, const Subject& subject, BenchResult& result) {
        timeAgain(into, recheck, subject, options.record, result);
      });
}

std::vector<VerifyResult> verifyChoices(const std::filesystem::path& store,
                                        const RecheckOptions& options) {
  return eachKey<VerifyResult>(
      store, options,
      [&](Store& into, Recheck& recheck, const Subject& subject, VerifyResult& result) {
        const Check check = recheck.verify(subject, options.seed);
        result.passed = check.verdict.pass;
        result.reference = check.verdict.reference;
        result.worstError = check.verdict.worstError;
        if (!result.passed)
          result.problem =
              fmt::format("{}: {}", name(check.kind.value_or(FailureKind::wrongResult)), check.log);
        if (options.record)
          judge(into, subject.known, check.verdict);
      });
}

std::vector<RegressResult> regress(const std::filesystem::path& store,
                                   const RecheckOptions& options) {
  return eachKey<RegressResult>(
      store, options,
      [&](Store& into, Recheck& recheck, const Subject& subject, RegressResult& result) {
        const Retimed now = timeAgain(into, recheck, subject, options.record, result);
        if (const autotune::Measurement* record = subject.record())
          result.recorded = timeOf(*record);
        if (result.trouble.empty())
          result.regression = regressionOf(subject, now, options.tolerance);
      });
}

} // namespace kiln
