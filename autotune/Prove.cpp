// The first comparison of the cost model's choices with fp64, and where its verdict is kept.
#include "autotune/Make.h"
#include "codegen/backend/Driver.h"
#include "codegen/backend/Fail.h"
#include "codegen/backend/Target.h"
#include "kiln/verify.h"

namespace kiln::autotune {

namespace {

constexpr const char* byFirstCheck = "fp64, first check";

bool runsHere(const Program& program) {
  if (!isFirstCheckWanted() || !whyNoGpu().empty())
    return false;
  const DeviceInfo& device = Driver::get().currentDevice();
  return targetOfCapability(device.major, device.minor).arch == program.arch();
}

[[noreturn]] void failWrong(const Unproved& choice, const std::string& why) {
  fail(ErrorKind::verification,
       "the kernel that the cost model chose is wrong and is not used: {}; schedule {}. "
       "'kernel-compile tune' finds another one",
       why, choice.schedule);
}

} // namespace

void prove(const Unproved& choice, const Store& known, Store* keeper) {
  if (const auto verdict = known.verdictOf(choice.key, choice.cubin)) {
    if (!*verdict)
      failWrong(choice, "a comparison with fp64 failed before");
    return;
  }
  if (!runsHere(choice.program))
    return;
  const Module reference = Module::parse(choice.text);
  const std::string wrong = firstCheck(choice.program, Where::gpu, &reference);
  if (keeper)
    keeper->judge(choice.key, {.schedule = choice.schedule,
                               .cubin = choice.cubin,
                               .pass = wrong.empty(),
                               .reference = byFirstCheck,
                               .worstError = wrong.empty() ? 0.0 : 1.0,
                               .deterministic = true,
                               .seed = 1});
  if (!wrong.empty())
    failWrong(choice, wrong);
}

} // namespace kiln::autotune
