// Many processes write one store and are killed at random points: the file stays whole, every row
// whose writing returned is there, and nobody's lease is left to block a key.
// KILN_KILL_SECONDS sets how long; 8 by default.
#include "test/store/Rows.h"

#include "autotune/store/Merge.h"

#include <atomic>
#include <csignal>
#include <random>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace kiln::autotune {
namespace {

constexpr int kProcesses = 32, kKeys = 8, kMostLives = 1 << 16, kLeaseSeconds = 1;

/// What each life of a process has been told is written: shared with the parent, and as safe from
/// a kill as the store is.
struct Board {
  std::atomic<int> written[kMostLives];
};

Board* share() {
  void* memory =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return new (memory) Board{};
}

[[noreturn]] void work(const std::filesystem::path& path, Board& board, int life) {
  std::string owner = "here:" + std::to_string(::getpid()) + ":" + std::to_string(life);
  std::string schedule = "life " + std::to_string(life);
  try {
    auto store = Store::open(path, Store::Access::write);
    std::mt19937 random(static_cast<unsigned>(life));
    for (int round = 0;; ++round) {
      Key key = keyNumber(static_cast<int>(random() % kKeys));
      bool mine = store->lease(key, owner, kLeaseSeconds);
      Artifact artifact = artifactOf(schedule + " " + std::to_string(round % 4));
      store->keep(key, schedule, artifact);
      store->judge(key, verdictOf(artifact, schedule, true));
      Measurement measurement = measurementOf(schedule, artifact.sha256, 10 + round % 7);
      measurement.samples = round + 1;
      store->measure(key, measurement);
      board.written[life].store(round + 1);
      if (mine) {
        store->choose(key, choiceOf(schedule, artifact.sha256, Source::measured));
        store->release(key, owner);
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "life %d: %s\n", life, error.what());
    ::_exit(1);
  }
}

double secondsToRun() {
  const char* given = std::getenv("KILN_KILL_SECONDS");
  return given ? std::atof(given) : 8;
}

class KillTest : public InFolder {};

TEST_F(KillTest, NothingIsLost) {
  Board& board = *share();
  std::mt19937 random(1);
  std::vector<pid_t> processes;
  int lives = 0, ownEnds = 0;
  auto start = [&] {
    pid_t child = ::fork();
    if (child == 0)
      work(path(), board, lives);
    ++lives;
    return child;
  };
  for (int i = 0; i < kProcesses; ++i)
    processes.push_back(start());
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(secondsToRun());
  auto kill = [&](pid_t child) {
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ownEnds += WIFEXITED(status);
  };
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 50));
    pid_t& victim = processes[random() % processes.size()];
    kill(victim);
    ASSERT_LT(lives, kMostLives);
    victim = start();
  }
  for (pid_t child : processes)
    kill(child);
  EXPECT_EQ(ownEnds, 0); // no error ended one

  auto store = open(); // throws if it is damaged
  EXPECT_TRUE(check(*store).empty());
  std::int64_t rows = 0;
  for (int life = 0; life < lives; ++life) {
    std::string schedule = "life " + std::to_string(life);
    Statement count = store->database().query(
        "SELECT count(DISTINCT samples), coalesce(max(samples), 0) FROM measurement JOIN candidate "
        "ON id = candidate WHERE schedule = ?",
        {schedule});
    ASSERT_TRUE(count.step());
    EXPECT_GE(count.integer(0), board.written[life].load()) << schedule;
    EXPECT_EQ(count.integer(0), count.integer(1)) << schedule;
    rows += count.integer(0);
  }
  EXPECT_GT(rows, 100);
  std::this_thread::sleep_for(std::chrono::milliseconds(1000 * kLeaseSeconds + 50));
  for (int key = 0; key < kKeys; ++key)
    EXPECT_TRUE(store->lease(keyNumber(key), "after", 1));
  std::printf("%d lives, %lld rows\n", lives, static_cast<long long>(rows));
  ::munmap(&board, sizeof board);
}

} // namespace
} // namespace kiln::autotune
