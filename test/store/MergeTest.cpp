// Merging, exporting, collecting: the same choices whatever the order, and layers above them.
#include "test/store/Rows.h"

#include "autotune/store/Layers.h"
#include "autotune/store/Merge.h"

#include <gmock/gmock.h>

#include <random>

using testing::HasSubstr;

namespace kiln::autotune {
namespace {

class MergeTest : public InFolder {
 protected:
  /// Random choices of random sources for 12 keys, many of them of both stores.
  std::unique_ptr<Store> random(unsigned seed) const {
    std::mt19937 number(seed);
    auto store = Store::inMemory();
    for (int i = 0; i < 12; ++i) {
      Key key = keyNumber(i);
      std::string schedule = "schedule " + std::to_string(number() % 3);
      switch (number() % 6) {
      case 0:
        break;
      case 1:
        store->choose(key, choiceOf(schedule, "", Source::model));
        break;
      case 2:
        store->choose(key, choiceOf("", "", Source::vendor));
        break;
      case 3: { // measured, and later found wrong
        Artifact artifact = tune(*store, key, schedule, 10);
        store->judge(key, verdictOf(artifact, schedule, false));
        break;
      }
      default:
        tune(*store, key, schedule, 5.0 + number() % 10, 0.1 + 0.1 * (number() % 10));
      }
    }
    return store;
  }
  std::unique_ptr<Store> merged(std::initializer_list<const Store*> stores) const {
    auto all = Store::inMemory();
    for (const Store* store : stores)
      merge(*all, *store);
    return all;
  }
};

TEST_F(MergeTest, CommutativeAndIdempotent) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    auto a = random(2 * seed), b = random(2 * seed + 1);
    auto ab = merged({a.get(), b.get()});
    std::string text = choicesOf(*ab);
    EXPECT_EQ(text, choicesOf(*merged({b.get(), a.get()})));
    EXPECT_EQ(text, choicesOf(*merged({ab.get(), a.get(), b.get(), ab.get()})));
    EXPECT_EQ(choicesOf(*merged({a.get(), a.get()})), choicesOf(*a));
    EXPECT_TRUE(check(*ab).empty());
  }
}

TEST_F(MergeTest, NarrowerIntervalWinsAndConflictsAreListed) {
  auto a = Store::inMemory(), b = Store::inMemory();
  Key key = keyNumber(1);
  tune(*a, key, "a", 10, 1.0);
  tune(*b, key, "b", 10, 0.1);
  b->choose(keyNumber(2), choiceOf("m", "", Source::model));
  auto conflicts = merge(*a, *b);
  ASSERT_EQ(conflicts.size(), 1u);
  EXPECT_EQ(conflicts[0].first.schedule, "a");
  EXPECT_EQ(conflicts[0].second.schedule, "b");
  EXPECT_EQ(conflicts[0].kept.schedule, "b");
  EXPECT_EQ(a->history(key).measurements.size(), 2u);
  EXPECT_EQ(a->keys().size(), 2u);
}

TEST_F(MergeTest, SearchesTravelWithTheirChoices) {
  auto a = Store::inMemory(), b = Store::inMemory();
  Key chosen = keyNumber(1), unchosen = keyNumber(2);
  for (const Key& key : {chosen, unchosen}) {
    Measurement measured = measurementOf("good", sha256("code of good"), 10);
    measured.place = 2;
    a->measure(key, measured);
    a->copied(key, measurementOf("copy", "", 8));
    a->searched(key, {});
    a->describe(key, "gate", "func.func");
    a->keepTask(key, {});
    b->keepTask(key, {"", "sm_90a", "", {}, "general", {}});
  }
  tune(*a, chosen, "good", 10);
  merge(*b, *a);
  merge(*b, *a);
  EXPECT_EQ(b->history(chosen).searches.size(), 1u);
  EXPECT_EQ(b->history(unchosen).copies.size(), 1u);
  EXPECT_EQ(b->history(unchosen).measurements.at(0).place, 2);
  EXPECT_EQ(b->task(unchosen)->general, "general");
  exportChoices(*b, path("part"), {});
  auto part = open("part", Store::Access::immutable);
  EXPECT_EQ(part->keys(true).size(), 1u);
  EXPECT_EQ(part->history(chosen).searches.size(), 1u);
  EXPECT_EQ(part->history(chosen).measurements.at(0).place, 2);
  EXPECT_TRUE(check(*part).empty());
  collectGarbage(*b, "another emitter");
  EXPECT_TRUE(b->keys(true).empty());
  EXPECT_EQ(b->database().number("SELECT count(*) FROM copy"), 0);
  EXPECT_EQ(b->database().number("SELECT count(*) FROM task"), 0);
  EXPECT_TRUE(check(*b).empty());
}

TEST_F(MergeTest, FailureElsewhereWithdrawsAChoice) {
  auto a = Store::inMemory(), b = Store::inMemory();
  Key key = keyNumber(1);
  Artifact artifact = tune(*a, key, "s", 10);
  b->judge(key, verdictOf(artifact, "s", false));
  EXPECT_TRUE(merged({a.get(), b.get()})->keys().empty());
  EXPECT_TRUE(merged({b.get(), a.get()})->keys().empty());
}

TEST_F(MergeTest, ADamagedStoreGivesNothing) {
  auto a = Store::inMemory(), b = Store::inMemory();
  tune(*b, keyNumber(1), "s", 10);
  b->database().execute("UPDATE artifact SET bytes = 3");
  EXPECT_THAT(errorOf(ErrorKind::corrupt, [&] { merge(*a, *b); }), HasSubstr("nothing was"));
  EXPECT_TRUE(a->keys().empty());
  auto c = Store::inMemory();
  tune(*c, keyNumber(1), "s", 10);
  c->database().execute("UPDATE toolchain SET nvrtc = '12.0'");
  EXPECT_THAT(errorOf(ErrorKind::corrupt, [&] { merge(*a, *c); }), HasSubstr("digest"));
}

TEST_F(MergeTest, ExportAndImport) {
  auto store = random(5);
  for (const KnownKey& known : store->keys(true))
    store->describe(known.key, "op_" + known.digest.substr(0, 2) + " 64x128", "");
  exportChoices(*store, path("all"), {});
  auto empty = Store::inMemory();
  merge(*empty, *open("all", Store::Access::immutable));
  EXPECT_EQ(choicesOf(*empty), choicesOf(*store));
  for (const KnownKey& known : empty->keys()) {
    auto choice = empty->choice(known.key);
    if (!choice->cubin.empty()) {
      EXPECT_EQ(empty->artifact(known.key, choice->schedule, choice->cubin)->cubin,
                store->artifact(known.key, choice->schedule, choice->cubin)->cubin);
    }
  }
  // One file, and nothing beside it.
  EXPECT_FALSE(std::filesystem::exists(path("all-wal")));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST_F(MergeTest, ExportOfAPart) {
  auto store = Store::inMemory();
  for (int i = 0; i < 4; ++i) {
    Key key = keyNumber(i);
    key.arch = i % 2 ? "sm_80" : "sm_90a";
    tune(*store, key, "schedule " + std::to_string(i), 10);
    store->describe(key, i < 2 ? "softmax 8x8 bf16" : "softmax_of_mine 8x8 bf16", "");
  }
  exportChoices(*store, path("part"), {{"sm_80"}, {"softmax"}});
  auto part = open("part", Store::Access::read);
  ASSERT_EQ(part->keys(true).size(), 1u);
  EXPECT_EQ(part->keys()[0].key.arch, "sm_80");
  EXPECT_EQ(part->database().number("SELECT count(*) FROM artifact"), 1);
  EXPECT_EQ(store->keys().size(), 4u);
  errorOf(ErrorKind::io, [&] { exportChoices(*store, folder / "no" / "folder", {}); });
}

TEST_F(MergeTest, ExportReplacesStoresAlone) {
  auto store = open("tuned");
  tune(*store, keyNumber(1), "s", 10);
  exportChoices(*store, path("shipped"), {});
  exportChoices(*store, path("shipped"), {});
  std::ofstream(path("empty")).close();
  exportChoices(*store, path("empty"), {});
  EXPECT_EQ(open("empty", Store::Access::read)->keys().size(), 1u);

  std::ofstream(path("notes")) << "notes";
  EXPECT_THAT(errorOf(ErrorKind::input, [&] { exportChoices(*store, path("notes"), {}); }),
              HasSubstr("another program"));
  std::string notes;
  std::ifstream(path("notes")) >> notes;
  EXPECT_EQ(notes, "notes");
  std::filesystem::create_hard_link(path("tuned"), path("same"));
  for (const char* itself : {"tuned", "same"})
    EXPECT_THAT(errorOf(ErrorKind::input, [&] { exportChoices(*store, path(itself), {}); }),
                HasSubstr("history would be lost"));
  EXPECT_THAT(errorOf(ErrorKind::input, [&] { exportChoices(*store, "/dev/null", {}); }),
              HasSubstr("a character device"));
  auto writer = open("shipped");
  EXPECT_THAT(errorOf(ErrorKind::io, [&] { exportChoices(*store, path("shipped"), {}); }),
              HasSubstr("is in use"));
  writer.reset();
  exportChoices(*store, path("shipped"), {});
  EXPECT_EQ(store->history(keyNumber(1)).measurements.size(), 1u);
}

TEST_F(MergeTest, GarbageIsWhatNoChoiceNeeds) {
  auto store = open();
  Key key = keyNumber(1), old = keyNumber(2);
  old.emitter = sha256("an older one");
  Artifact slow = tune(*store, key, "slow", 20), fast = tune(*store, key, "fast", 10);
  tune(*store, old, "slow", 20);
  EXPECT_TRUE(store->lease(keyNumber(3), "killed", -1));
  Collected first = collectGarbage(*store, "");
  EXPECT_EQ(first.cubins, 0); // `slow` is the choice of the other key
  EXPECT_EQ(first.keys, 1);
  EXPECT_FALSE(store->artifact(key, "slow", slow.sha256));
  EXPECT_EQ(collectGarbage(*store, key.emitter).cubins, 1);
  EXPECT_FALSE(store->choice(old));
  ASSERT_TRUE(store->artifact(key, "fast", fast.sha256));
  EXPECT_EQ(store->history(key).measurements.size(), 2u);
  EXPECT_TRUE(check(*store).empty());
}

TEST_F(MergeTest, LayersInOrder) {
  auto schedules = [&](const char* name, std::initializer_list<int> keys) {
    auto store = open(name);
    for (int key : keys)
      tune(*store, keyNumber(key), name, 10);
  };
  schedules("pinned", {1});
  schedules("project", {1, 2});
  schedules("user", {1, 2, 3});
  schedules("system", {1, 2, 3, 4});
  std::vector<std::string> warnings;
  Layers layers({path("pinned"), path("project"), path("user"), path("system")}, Layers::Use::write,
                warnings);
  EXPECT_TRUE(warnings.empty());
  const char* expected[] = {"pinned", "project", "user", "system"};
  for (int key = 1; key <= 4; ++key) {
    auto found = layers.find(keyNumber(key));
    ASSERT_EQ(found.size(), static_cast<std::size_t>(5 - key));
    EXPECT_EQ(found[0].layer, expected[key - 1]);
    EXPECT_EQ(found[0].choice.schedule, expected[key - 1]);
  }
  EXPECT_TRUE(layers.find(keyNumber(5)).empty());
  ASSERT_TRUE(layers.writer());
  EXPECT_THAT(layers.writer()->database().name(), HasSubstr("project"));
}

TEST_F(MergeTest, MissNamesTheFirstFieldThatDiffers) {
  std::vector<std::string> warnings;
  Layers none({}, Layers::Use::write, warnings);
  EXPECT_EQ(toText(none.explainMiss(keyNumber(1))), "no store holds a choice");
  {
    auto store = open();
    tune(*store, keyNumber(1), "s", 10);
    store->describe(keyNumber(1), "softmax", "");
    Key other = keyNumber(2);
    other.nvrtc = "12.0";
    tune(*store, other, "s", 10);
  }
  Layers layers({"", "", path(), ""}, Layers::Use::read, warnings);
  Key key = keyNumber(1);
  key.nvrtc = "12.0";
  key.emitter = "new";
  Miss miss = layers.explainMiss(key);
  EXPECT_EQ(miss.field, "nvrtc");
  EXPECT_EQ(miss.wanted, "12.0");
  EXPECT_EQ(miss.nearest, "13.0");
  EXPECT_EQ(toText(miss), "nvrtc is '12.0', the nearest choice (softmax) has '13.0'");
  key = keyNumber(1);
  key.device = "H100, 132 SMs";
  EXPECT_EQ(layers.explainMiss(key).field, "device");
  EXPECT_EQ(layers.explainMiss(keyNumber(9)).field, "function");
  // A program that never compiles does not ask who compiled.
  key = keyNumber(1);
  key.nvrtc = "";
  EXPECT_TRUE(layers.find(key).empty());
  auto found = layers.find(key, true);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].key.nvrtc, "13.0");
  EXPECT_EQ(layers.writer(), nullptr);
}

TEST_F(MergeTest, OfStoresThatOthersMayWriteTheSystemsIsLeftOut) {
  for (const char* name : {"pinned", "project", "user", "system"}) {
    auto store = open(name);
    tune(*store, keyNumber(1), name, 10);
  }
  std::filesystem::permissions(folder, std::filesystem::perms(0777));
  for (auto use : {Layers::Use::write, Layers::Use::read, Layers::Use::readNow}) {
    std::vector<std::string> warnings;
    Layers layers({path("pinned"), path("project"), path("user"), path("system")}, use, warnings);
    ASSERT_EQ(warnings.size(), 4u);
    for (const std::string& warning : warnings)
      EXPECT_THAT(warning, HasSubstr("others may write the store"));
    EXPECT_THAT(warnings[3], HasSubstr("the system layer is left out"));
    EXPECT_EQ(layers.all().size(), 3u);
  }
}

TEST_F(MergeTest, DamagedLayersAreLeftOut) {
  {
    auto store = open("user");
    tune(*store, keyNumber(1), "s", 10);
  }
  std::ofstream(path("pinned")) << "not a store, and that is said once; " << std::string(200, 'x');
  std::vector<std::string> warnings;
  Layers layers({path("pinned"), "", path("user"), ""}, Layers::Use::write, warnings);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("pinned layer is left out"));
  EXPECT_EQ(layers.find(keyNumber(1)).size(), 1u);
}

} // namespace
} // namespace kiln::autotune
