// The store as a journal: what is written comes back, rules are kept by the database itself.
#include "test/store/Rows.h"

#include "autotune/Process.h"
#include "autotune/store/FileSystem.h"
#include "autotune/store/Schema.h"

#include <gmock/gmock.h>

#include <sys/wait.h>
#include <unistd.h>

using testing::HasSubstr;

namespace kiln::autotune {
namespace {

class StoreTest : public InFolder {};

TEST_F(StoreTest, DigestDependsOnEveryField) {
  Key key = keyNumber(1);
  EXPECT_EQ(digest(key), digest(keyNumber(1)));
  EXPECT_EQ(fields(key).size(), 9u);
  std::string Key::* texts[] = {&Key::function, &Key::tensors, &Key::arch,    &Key::device,
                                &Key::nvrtc,    &Key::flags,   &Key::emitter, &Key::space};
  for (auto text : texts) {
    Key other = key;
    other.*text += "x";
    EXPECT_NE(digest(other), digest(key));
  }
  key.regime = Regime::warm;
  EXPECT_NE(digest(key), digest(keyNumber(1)));
  Key a = keyNumber(1), b = keyNumber(1);
  a.arch = "ab", a.device = "c";
  b.arch = "a", b.device = "bc";
  EXPECT_NE(digest(a), digest(b));
}

TEST_F(StoreTest, EverythingComesBack) {
  Key key = keyNumber(1);
  Artifact artifact;
  {
    auto store = open();
    store->reject(key, {"wide", "resources", "shared memory", 262144, 232448});
    store->fail(key, {"fast", "abc", "550.1", FailureKind::illegalAccess, "the end"});
    artifact = tune(*store, key, "good", 10);
    store->baseline(key, measurementOf("aten 2.11.0", "", 12));
    store->describe(key, "layer_norm 64x128 bf16", "func.func");
  }
  auto store = open("store", Store::Access::read);
  History known = store->history(key);
  ASSERT_EQ(known.rejections.size(), 1u);
  EXPECT_EQ(known.rejections[0].asked, 262144);
  ASSERT_EQ(known.failures.size(), 1u);
  EXPECT_EQ(known.failures[0].kind, FailureKind::illegalAccess);
  EXPECT_EQ(known.failures[0].log, "the end");
  ASSERT_EQ(known.verdicts.size(), 1u);
  EXPECT_TRUE(known.verdicts[0].pass);
  EXPECT_EQ(known.verdicts[0].seed, 7u);
  ASSERT_EQ(known.measurements.size(), 1u);
  EXPECT_EQ(known.measurements[0].median, 10);
  EXPECT_EQ(known.measurements[0].conditions.host, "here");
  ASSERT_EQ(known.baselines.size(), 1u);
  EXPECT_EQ(known.baselines[0].schedule, "aten 2.11.0");
  EXPECT_DOUBLE_EQ(store->gainOverVendor(key, "good"), 1.2);
  EXPECT_EQ(store->gainOverVendor(key, "wide"), 0); // never measured
  EXPECT_EQ(store->gainOverVendor(keyNumber(2), "good"), 0);
  ASSERT_TRUE(known.choice);
  EXPECT_EQ(known.choice->schedule, "good");
  auto loaded = store->artifact(key, "good", artifact.sha256);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->cubin, artifact.cubin);
  EXPECT_EQ(loaded->registers, 32);
  ASSERT_EQ(store->keys().size(), 1u);
  EXPECT_EQ(store->keys()[0].key, key);
  EXPECT_EQ(store->keys()[0].label, "layer_norm 64x128 bf16");
  EXPECT_FALSE(store->history(keyNumber(2)).choice);
}

TEST_F(StoreTest, SearchesAndPredictionsComeBack) {
  auto store = open();
  Key key = keyNumber(1);
  Measurement measured = measurementOf("good", sha256("good"), 10);
  measured.place = 3;
  measured.predicted = 9.5;
  store->measure(key, measured);
  store->copied(key, measurementOf("copy", "", 8));
  store->searched(key, {.feasible = 40,
                        .tried = 12,
                        .standard = "first",
                        .runnerUp = "second",
                        .ratio = 0.97,
                        .ratioLow = 0.96,
                        .ratioHigh = 0.98,
                        .roofline = 7,
                        .bytes = 33.6e6,
                        .seconds = 2.5,
                        .reason = "all tried"});
  EXPECT_FALSE(store->task(key));
  store->describe(key, "gate", "func.func @gate");
  store->keepTask(key, {"", "sm_90a", "", {64}, "g", {64, 128}});
  store = open();
  History known = store->history(key);
  EXPECT_EQ(known.measurements.at(0).place, 3);
  EXPECT_EQ(known.measurements.at(0).predicted, 9.5);
  EXPECT_EQ(known.copies.at(0).median, 8);
  const Search& search = known.searches.at(0);
  EXPECT_EQ(search.tried, 12u);
  EXPECT_EQ(search.standard, "first");
  EXPECT_EQ(search.runnerUp, "second");
  EXPECT_EQ(search.ratioHigh, 0.98);
  EXPECT_EQ(search.bytes, 33.6e6);
  EXPECT_EQ(search.reason, "all tried");
  Task task = store->task(key).value();
  EXPECT_EQ(task.module, "func.func @gate");
  EXPECT_EQ(task.arch, "sm_90a");
  EXPECT_EQ(task.sizes, std::vector<std::int64_t>{64});
  EXPECT_EQ(task.general, "g");
  EXPECT_EQ(task.generalSizes, (std::vector<std::int64_t>{64, 128}));
  EXPECT_EQ(store->keyStartingWith(digest(key).substr(0, 6)).digest, digest(key));
  EXPECT_THAT(errorOf(ErrorKind::missing, [&] { store->keyStartingWith("zz"); }),
              HasSubstr("0 of the keys"));
}

TEST_F(StoreTest, OneCubinHasAPlanForEachKeyAndSchedule) {
  auto store = open();
  Artifact artifact = artifactOf("code");
  auto keep = [&](int key, const char* schedule, const char* plan) {
    artifact.plan = plan;
    store->keep(keyNumber(key), schedule, artifact);
  };
  auto planOf = [&](int key, const char* schedule) {
    return store->artifact(keyNumber(key), schedule, artifact.sha256)->plan;
  };
  keep(1, "a", "rows 64");
  keep(1, "b", "rows 64, programmatic");
  keep(2, "a", "rows 128");
  EXPECT_EQ(planOf(1, "a"), "rows 64");
  EXPECT_EQ(planOf(1, "b"), "rows 64, programmatic");
  EXPECT_EQ(planOf(2, "a"), "rows 128");
  EXPECT_FALSE(store->artifact(keyNumber(2), "b", artifact.sha256));
  EXPECT_EQ(store->database().number("SELECT count(*) FROM artifact"), 1);
  // What one schedule's launch broke says nothing about the other's.
  store->judge(keyNumber(1), verdictOf(artifact, "a", true));
  store->judge(keyNumber(1), verdictOf(artifact, "b", false));
  store->choose(keyNumber(1), choiceOf("a", artifact.sha256, Source::measured));
  EXPECT_TRUE(store->choice(keyNumber(1)));
  errorOf(ErrorKind::verification,
          [&] { store->choose(keyNumber(1), choiceOf("b", artifact.sha256, Source::measured)); });
}

TEST_F(StoreTest, RefusalsAreCountedByRule) {
  auto store = open();
  store->refuse(keyNumber(1), {"kiln_f", "registers", 3, "few"});
  store->refuse(keyNumber(1), {"kiln_f", "registers", 7, "fewer"}); // another search's count
  store->refuse(keyNumber(1), {"kiln_f", "threads", 9, "many"});
  History known = store->history(keyNumber(1));
  ASSERT_EQ(known.refusals.size(), 2u);
  EXPECT_EQ(known.refusals[0].rule, "threads");
  EXPECT_EQ(known.refusals[1].schedules, 7);
  EXPECT_EQ(known.refusals[1].worst, "fewer");
}

TEST_F(StoreTest, MeasuredChoiceNeedsAPassingVerdictOfItsCubinAndKey) {
  auto store = open();
  Key key = keyNumber(1), other = keyNumber(2);
  Artifact good = artifactOf("good"), wrong = artifactOf("wrong");
  for (const Key& k : {key, other}) {
    store->keep(k, "s", good);
    store->keep(k, "s", wrong);
  }
  auto refused = [&](const Artifact& artifact) {
    return errorOf(ErrorKind::verification,
                   [&] { store->choose(key, choiceOf("s", artifact.sha256, Source::measured)); });
  };
  EXPECT_THAT(refused(good), HasSubstr("unproved choice"));
  store->judge(other, verdictOf(good, "s", true)); // of another key
  refused(good);
  store->judge(key, verdictOf(wrong, "s", true)); // of another cubin
  refused(good);
  store->judge(key, verdictOf(good, "s", false));
  refused(good);
  EXPECT_FALSE(store->choice(key));
  store->choose(key, choiceOf("s", wrong.sha256, Source::measured));
  EXPECT_TRUE(store->choice(key));
  // Nor by writing around the functions.
  errorOf(ErrorKind::verification,
          [&] { store->database().execute("UPDATE choice SET cubin = ?", {good.sha256}); });
}

TEST_F(StoreTest, ChoiceNeedsItsCubin) {
  auto store = open();
  std::string text = errorOf(ErrorKind::verification, [&] {
    store->choose(keyNumber(1), choiceOf("s", sha256("never kept"), Source::model));
  });
  EXPECT_THAT(text, HasSubstr("keep the cubin"));
  store->choose(keyNumber(1), choiceOf("", "", Source::vendor)); // has none
  EXPECT_EQ(store->choice(keyNumber(1))->source, Source::vendor);
}

TEST_F(StoreTest, ChoiceThatFailsLaterIsWithdrawn) {
  auto store = open();
  Artifact artifact = tune(*store, keyNumber(1), "good", 10);
  tune(*store, keyNumber(2), "good", 10);
  store->judge(keyNumber(1), verdictOf(artifact, "good", false));
  EXPECT_FALSE(store->choice(keyNumber(1)));
  EXPECT_TRUE(store->choice(keyNumber(2)));
}

TEST_F(StoreTest, StrongerSourcesStay) {
  auto store = open();
  Key key = keyNumber(1);
  auto choose = [&](const char* schedule, Source source) {
    store->choose(key, choiceOf(schedule, "", source));
    return store->choice(key)->schedule;
  };
  EXPECT_EQ(choose("model", Source::model), "model");
  EXPECT_EQ(choose("model again", Source::model), "model again");
  EXPECT_EQ(choose("near", Source::transferred), "near");
  EXPECT_EQ(choose("model", Source::model), "near");
  EXPECT_EQ(choose("vendor", Source::vendor), "vendor");
  tune(*store, key, "measured", 10);
  EXPECT_EQ(store->choice(key)->schedule, "measured");
  EXPECT_EQ(choose("near", Source::transferred), "measured");
  store->pin(key, "");
  tune(*store, key, "faster", 5);
  EXPECT_EQ(store->choice(key)->schedule, "measured");
  store->pin(key, "faster");
  EXPECT_EQ(store->choice(key)->schedule, "faster");
  errorOf(ErrorKind::missing, [&] { store->pin(key, "unknown"); });
  errorOf(ErrorKind::missing, [&] { store->pin(keyNumber(2), ""); });
  store->unpin(key);
  EXPECT_EQ(store->choice(key)->source, Source::measured);
  EXPECT_EQ(store->choice(key)->schedule, "faster");
  tune(*store, key, "fastest", 4);
  EXPECT_EQ(store->choice(key)->schedule, "fastest");
  Key unproved = keyNumber(2);
  store->choose(unproved, choiceOf("guess", "", Source::model));
  store->pin(unproved, "");
  store->unpin(unproved);
  EXPECT_EQ(store->choice(unproved)->source, Source::model);
}

TEST_F(StoreTest, LeasesFallToOthersWhenTheyEnd) {
  auto first = open(), second = open();
  Key key = keyNumber(1);
  EXPECT_TRUE(first->lease(key, "a", 100));
  EXPECT_TRUE(first->lease(key, "a", 100));
  EXPECT_FALSE(second->lease(key, "b", 100));
  EXPECT_FALSE(second->renew(key, "b", 100));
  EXPECT_TRUE(first->renew(key, "a", -1)); // it ended a second ago
  EXPECT_TRUE(second->lease(key, "b", 100));
  EXPECT_FALSE(first->renew(key, "a", 100));
  first->release(key, "a"); // is not a's to release
  EXPECT_FALSE(first->lease(key, "a", 100));
  second->release(key, "b");
  EXPECT_TRUE(first->lease(key, "a", 100));
}

/// A process's name, with one of its parts replaced.
std::string nameWith(std::string name, int part, const std::string& text) {
  std::size_t begin = 0;
  for (; part > 0; --part)
    begin = name.find(':', begin) + 1;
  return name.replace(begin, name.find(':', begin) - begin, text);
}

TEST_F(StoreTest, TheLeaseOfAProcessThatHasEndedIsFree) {
  const std::string self = nameOfThisProcess();
  if (std::ranges::count(self, ':') != 5 || self.find("::") != std::string::npos)
    GTEST_SKIP() << "this system does not tell of its processes: " << self;
  EXPECT_FALSE(hasEnded(self));
  EXPECT_TRUE(hasEnded(nameWith(self, 2, "1"))); // its number was given again
  EXPECT_FALSE(hasEnded(nameWith(nameWith(self, 2, "1"), 3, "another boot")));
  EXPECT_FALSE(hasEnded(nameWith(nameWith(self, 2, "1"), 4, "another namespace")));
  EXPECT_FALSE(hasEnded(nameWith(nameWith(self, 2, "1"), 4, "")));
  for (const char* other : {"", "a", "host:1:0badc0de", "::::::::", "host:x:1:b:n:r"})
    EXPECT_FALSE(hasEnded(other)) << other;

  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string name = nameOfThisProcess();
    const bool held = Store::open(path(), Store::Access::write)->lease(keyNumber(1), name, 1000);
    ::_exit(held && ::write(ends[1], name.data(), name.size()) == ssize_t(name.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string name(1000, ' ');
  name.resize(static_cast<std::size_t>(std::max<ssize_t>(::read(ends[0], name.data(), 1000), 0)));
  ::close(ends[0]);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(ended.si_status, 0);
  EXPECT_TRUE(hasEnded(name)) << "as a zombie: " << name;
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(hasEnded(name));
  auto store = open();
  EXPECT_TRUE(store->lease(keyNumber(1), self, 1000));
  EXPECT_FALSE(store->lease(keyNumber(1), nameWith(self, 5, "another"), 1000)); // it lives
}

TEST_F(StoreTest, CubinThatIsNotWhatItIsCalled) {
  auto store = open();
  Artifact artifact = artifactOf("code");
  artifact.cubin.push_back(std::byte{0});
  errorOf(ErrorKind::input, [&] { store->keep(keyNumber(1), "s", artifact); });
  artifact = tune(*store, keyNumber(1), "s", 10);
  auto other = compress(artifactOf("another program").cubin);
  store->database().execute("UPDATE artifact SET cubin = ?, bytes = 15", {Blob(other)});
  EXPECT_THAT(
      errorOf(ErrorKind::corrupt, [&] { store->artifact(keyNumber(1), "s", artifact.sha256); }),
      HasSubstr("has the SHA-256"));
  for (std::int64_t bytes : {14, 16, -1, 1 << 30}) {
    store->database().execute("UPDATE artifact SET bytes = ?", {bytes});
    errorOf(ErrorKind::corrupt, [&] { store->artifact(keyNumber(1), "s", artifact.sha256); });
  }
  artifact = tune(*store, keyNumber(2), "other", 10);
  store->database().execute("UPDATE launch SET plan = 'edited'");
  EXPECT_THAT(
      errorOf(ErrorKind::corrupt, [&] { store->artifact(keyNumber(2), "other", artifact.sha256); }),
      HasSubstr("launch plan"));
}

TEST_F(StoreTest, WalOnLocalDisksOnly) {
  EXPECT_TRUE(isLocal(0xEF53));
  EXPECT_TRUE(isLocal(0x9123683E));
  EXPECT_FALSE(isLocal(0x6969));     // NFS
  EXPECT_FALSE(isLocal(0xFF534D42)); // CIFS
  EXPECT_FALSE(isLocal(0x0BD00BD0)); // Lustre
  EXPECT_FALSE(isLocal(0x65735546)); // FUSE: may be anything
  EXPECT_FALSE(isLocal(0));
  EXPECT_EQ(open()->database().usesWal(), liesOnLocalDisk(path()));
}

TEST_F(StoreTest, Settings) {
  auto store = open();
  Database& database = store->database();
  EXPECT_EQ(database.number("PRAGMA application_id"), kApplication);
  EXPECT_EQ(database.number("PRAGMA user_version"), std::int64_t(schemaSteps().size()));
  EXPECT_EQ(database.number("PRAGMA foreign_keys"), 1);
  EXPECT_EQ(database.number("PRAGMA synchronous"), 1);
}

} // namespace
} // namespace kiln::autotune
