// Worker processes that really crash, hang and are killed.
#include "autotune/measure/Worker.h"
#include "autotune/simulate/SimulatedDevice.h"

#include <gtest/gtest.h>

#include <csignal>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace kiln;
using namespace kiln::autotune;
using std::chrono::milliseconds;

namespace {

Simulation faulty(FailureKind kind, bool whileTiming = false) {
  Simulation simulation;
  simulation.faults["bad"] = {kind, whileTiming};
  return simulation;
}

WorkerOptions optionsOf(const Simulation& simulation) {
  WorkerOptions options;
  options.command = {"/proc/self/exe", "--worker", toJson(simulation).dump()};
  return options;
}

Artifact compiled(Device& device, const std::string& schedule) {
  return std::get<Artifact>(device.compile({schedule, 10}));
}

/// Verifies and times; what the device answers to it.
Batch works(Device& device, const std::string& schedule = "good") {
  Artifact artifact = compiled(device, schedule);
  EXPECT_TRUE(device.verify(artifact, 1).verdict.pass);
  const Artifact* kernels[] = {&artifact, &artifact};
  return device.time(kernels, 8);
}

FailureKind lostBy(const std::function<void()>& action, std::string* text = nullptr) {
  try {
    action();
  } catch (const Lost& lost) {
    if (text)
      *text = lost.what();
    return lost.kind;
  }
  ADD_FAILURE() << "nothing was lost";
  return FailureKind::spill;
}

TEST(Worker, AnswersAsTheDeviceItself) {
  Simulation simulation;
  SimulatedDevice device(simulation);
  Worker worker(optionsOf(simulation));
  Task task;
  task.module = "module {}";
  task.sizes = {65536};
  worker.begin(task);
  Artifact artifact = compiled(worker, "good");
  EXPECT_EQ(artifact.sha256, compiled(device, "good").sha256);
  EXPECT_EQ(artifact.cubin, compiled(device, "good").cubin);
  Check check = worker.verify(artifact, 17);
  EXPECT_TRUE(check.verdict.pass);
  EXPECT_EQ(check.verdict.seed, 17u);
  EXPECT_EQ(check.verdict.cubin, artifact.sha256);
  const Artifact* kernels[] = {&artifact, &artifact};
  Batch here = device.time(kernels, 16), there = worker.time(kernels, 16);
  EXPECT_EQ(here.samples, there.samples); // bit for bit: JSON keeps doubles
  EXPECT_EQ(worker.conditions().uuid, device.conditions().uuid);
  EXPECT_EQ(worker.starts(), 1);
}

TEST(Worker, ACrashCostsTheProcessOnly) {
  Worker worker(optionsOf(faulty(FailureKind::crash)));
  works(worker);
  Artifact bad = compiled(worker, "bad");
  std::string text;
  EXPECT_EQ(lostBy([&] { worker.verify(bad, 1); }, &text), FailureKind::crash);
  EXPECT_NE(text.find("signal 11"), std::string::npos) << text;
  EXPECT_EQ(worker.pid(), 0);
  EXPECT_EQ(works(worker).samples.size(), 2u);
  EXPECT_EQ(worker.starts(), 2);
}

TEST(Worker, AHangIsEndedAtTheLimit) {
  WorkerOptions options = optionsOf(faulty(FailureKind::hang));
  options.verify = milliseconds(1500);
  Worker worker(options);
  Artifact bad = compiled(worker, "bad");
  std::string text;
  EXPECT_EQ(lostBy([&] { worker.verify(bad, 1); }, &text), FailureKind::hang);
  EXPECT_NE(text.find("no answer within 1500 ms"), std::string::npos) << text;
  works(worker);
  EXPECT_EQ(worker.starts(), 2);
}

TEST(Worker, AReferenceMayTakeLongerThanAnyKernel) {
  Simulation slow;
  slow.reference = 1.0;
  WorkerOptions options = optionsOf(slow);
  options.verify = milliseconds(300);
  Worker worker(options);
  Artifact good = compiled(worker, "good");
  EXPECT_TRUE(worker.verify(good, 1).verdict.pass);
  options.prepare = milliseconds(200);
  Worker impatient(options);
  std::string text;
  EXPECT_EQ(lostBy([&] { impatient.verify(good, 1); }, &text), FailureKind::hang);
  EXPECT_NE(text.find("no answer within 200 ms"), std::string::npos) << text;
}

TEST(Worker, ABrokenContextEndsIt) {
  for (FailureKind kind :
       {FailureKind::illegalAccess, FailureKind::misaligned, FailureKind::launch}) {
    Worker worker(optionsOf(faulty(kind, true)));
    Artifact good = compiled(worker, "good"), bad = compiled(worker, "bad");
    EXPECT_TRUE(worker.verify(bad, 1).verdict.pass); // it shows when timed
    const Artifact* kernels[] = {&good, &bad};
    EXPECT_EQ(lostBy([&] { worker.time(kernels, 8); }), kind);
    EXPECT_EQ(worker.time(std::span(kernels).first(1), 8).samples[0].size(), 8u);
    EXPECT_EQ(worker.starts(), 2);
  }
}

TEST(Worker, WrongKernelsCostNothing) {
  for (FailureKind kind : {FailureKind::wrongResult, FailureKind::nan, FailureKind::wroteOutside,
                           FailureKind::race, FailureKind::wrongTail, FailureKind::outOfMemory}) {
    Worker worker(optionsOf(faulty(kind)));
    Check check = worker.verify(compiled(worker, "bad"), 1);
    EXPECT_FALSE(check.verdict.pass);
    EXPECT_EQ(check.kind, kind);
    EXPECT_EQ(worker.starts(), 1);
  }
}

TEST(Worker, KilledFromOutside) {
  Worker worker(optionsOf({}));
  works(worker);
  ::kill(worker.pid(), SIGKILL);
  EXPECT_EQ(lostBy([&] { works(worker); }), FailureKind::crash);
  works(worker);
  ::kill(worker.pid(), SIGKILL);
  worker.begin({}); // no kernel's fault
  works(worker);
  EXPECT_EQ(worker.starts(), 3);
}

TEST(Worker, ErrorsOfTheDeviceArriveAsSuch) {
  Worker worker(optionsOf({}));
  Artifact foreign;
  foreign.sha256 = "feed";
  try {
    worker.verify(foreign, 1);
    FAIL() << "no simulated cubin";
  } catch (const Lost&) {
    FAIL() << "nothing broke";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::input);
    EXPECT_NE(std::string(error.what()).find("was not made by the simulated"), std::string::npos);
  }
  works(worker);
  EXPECT_EQ(worker.starts(), 1);
}

TEST(Worker, OneThatDoesNotStartIsUnavailable) {
  for (std::vector<std::string> command :
       {std::vector<std::string>{"/no/such/program"}, std::vector<std::string>{"/bin/false"}}) {
    WorkerOptions options;
    options.command = command;
    Worker worker(options);
    try {
      worker.conditions();
      FAIL() << command[0];
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unavailable);
      EXPECT_NE(std::string(error.what()).find(command[0]), std::string::npos) << error.what();
    }
  }
}

/// The supervisor is killed while its worker hangs in a kernel.
TEST(Worker, AnOrphanEnds) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  pid_t supervisor = ::fork();
  if (supervisor == 0) {
    Worker worker(optionsOf(faulty(FailureKind::hang)));
    Artifact bad = compiled(worker, "bad");
    pid_t pid = worker.pid();
    if (::write(ends[1], &pid, sizeof pid) != sizeof pid)
      ::_exit(1);
    worker.verify(bad, 1);
    ::_exit(1);
  }
  pid_t worker = 0;
  ASSERT_EQ(::read(ends[0], &worker, sizeof worker), ssize_t(sizeof worker));
  ::kill(supervisor, SIGKILL);
  ASSERT_EQ(::waitpid(supervisor, nullptr, 0), supervisor);
  EXPECT_EQ(::waitpid(worker, nullptr, 0), worker); // would wait for ever
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Wire, RefusesWhatIsNoMessage) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  std::uint64_t sizes[2] = {5, 0};
  ASSERT_EQ(::write(ends[0], sizes, sizeof sizes), ssize_t(sizeof sizes));
  ASSERT_EQ(::write(ends[0], "{\"a\":", 5), 5);
  EXPECT_THROW(receive(ends[1]), Error);
  sizes[1] = std::uint64_t{1} << 40;
  ASSERT_EQ(::write(ends[0], sizes, sizeof sizes), ssize_t(sizeof sizes));
  EXPECT_THROW(receive(ends[1]), Error);
  sizes[1] = 100; // and less follows
  ASSERT_EQ(::write(ends[0], sizes, sizeof sizes), ssize_t(sizeof sizes));
  ::close(ends[0]);
  EXPECT_FALSE(receive(ends[1]));
  ::close(ends[1]);
}

TEST(Wire, ChecksKeepInfinityAndKinds) {
  for (int i = 0; i <= static_cast<int>(FailureKind::launch); ++i) {
    auto kind = static_cast<FailureKind>(i);
    EXPECT_EQ(parseFailureKind(name(kind)), kind);
    Check check;
    check.kind = kind;
    check.verdict.worstError = HUGE_VAL;
    Check back = checkOf(Json::parse(toJson(check).dump()));
    EXPECT_EQ(back.kind, kind);
    EXPECT_TRUE(std::isinf(back.verdict.worstError));
  }
  EXPECT_THROW(parseFailureKind("bad luck"), Error);
}

} // namespace
