// Choices of other versions: taken over with all that was measured where the code is the same, and
// left where it is not.
#include "autotune/store/Sha256.h"
#include "autotune/store/Store.h"
#include "kiln/cache.h"
#include "test/backend/Helpers.h"

#include <algorithm>

namespace kiln::autotune {
namespace {

using State = cache::Refreshed::State;

class RefreshTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const Finding& finding : kiln::doctor())
      if (finding.name == "NVRTC" && finding.state != Finding::State::found)
        GTEST_SKIP() << "no NVRTC: " << finding.detail;
    Cache::open(now).compile(
        {Module::fromOp({"softmax", {64, 128}, DType::bf16}), {}, {}, "softmax"});
  }

  /// What this Kiln has just compiled, as another version would have tuned it.
  void writeOld(Source source, std::string cubin = "") const {
    auto fresh = Store::open(now, Store::Access::read);
    const Key current = fresh->keys().at(0).key;
    const Choice choice = *fresh->choice(current);
    Artifact artifact = *fresh->artifact(current, choice.schedule, choice.cubin);
    if (!cubin.empty()) {
      artifact.cubin.assign(reinterpret_cast<const std::byte*>(cubin.data()),
                            reinterpret_cast<const std::byte*>(cubin.data() + cubin.size()));
      artifact.sha256 = sha256(artifact.cubin);
    }
    auto store = Store::open(old, Store::Access::write);
    const Key key = olderKey(current);
    store->keep(key, choice.schedule, artifact);
    store->judge(key, {choice.schedule, artifact.sha256, true, "fp64 host", 0.5, true, 7});
    Measurement measured;
    measured.schedule = choice.schedule;
    measured.cubin = artifact.sha256;
    measured.median = 12.5;
    measured.place = 3;
    store->measure(key, measured);
    Measurement copy;
    copy.schedule = "copy";
    store->copied(key, copy);
    Search search;
    search.standard = choice.schedule;
    search.reason = "all were tried";
    store->searched(key, search);
    store->choose(key, {choice.schedule, artifact.sha256, source, "the fastest", 0.25});
    store->describe(key, "softmax", fresh->task(current)->module);
    store->keepTask(key, *fresh->task(current));
  }
  static Key olderKey(Key key) {
    key.emitter = "an older one";
    return key;
  }
  State refreshed() const {
    const auto all = cache::refresh(old);
    EXPECT_EQ(all.size(), 1u);
    return all.at(0).state;
  }
  bool isKnown(const Key& key) const {
    return Store::open(old, Store::Access::read)->choice(key).has_value();
  }

  test::TemporaryFolder folder;
  const std::filesystem::path now = folder.path / "now", old = folder.path / "old";
};

TEST_F(RefreshTest, TheSameCodeKeepsWhatWasMeasured) {
  writeOld(Source::measured);
  EXPECT_EQ(refreshed(), State::carried);
  auto store = Store::open(old, Store::Access::read);
  const Key current = Store::open(now, Store::Access::read)->keys().at(0).key;
  const History before = store->history(olderKey(current)), after = store->history(current);
  ASSERT_TRUE(after.choice);
  EXPECT_EQ(after.choice->source, Source::measured);
  EXPECT_EQ(after.choice->schedule, before.choice->schedule);
  EXPECT_EQ(after.choice->reason, "the fastest");
  EXPECT_EQ(after.choice->at, before.choice->at);
  ASSERT_EQ(after.measurements.size(), 1u);
  EXPECT_EQ(after.measurements[0].median, 12.5);
  EXPECT_EQ(after.measurements[0].place, 3);
  EXPECT_EQ(after.measurements[0].at, before.measurements[0].at);
  EXPECT_EQ(after.verdicts.size(), 1u);
  EXPECT_EQ(after.copies.size(), 1u);
  ASSERT_EQ(after.searches.size(), 1u);
  EXPECT_EQ(after.searches[0].reason, "all were tried");
  EXPECT_TRUE(store->artifact(current, after.choice->schedule, after.choice->cubin));
  EXPECT_TRUE(store->task(current));
}

TEST_F(RefreshTest, OnceIsEnough) {
  writeOld(Source::pinned);
  EXPECT_EQ(refreshed(), State::carried);
  for (const cache::Refreshed& choice : cache::refresh(old))
    EXPECT_EQ(choice.state, State::current);
}

TEST_F(RefreshTest, OtherCodeIsLeft) {
  writeOld(Source::measured, "of another compiler");
  EXPECT_EQ(refreshed(), State::stale);
  const Key current = Store::open(now, Store::Access::read)->keys().at(0).key;
  EXPECT_FALSE(isKnown(current));
  EXPECT_TRUE(isKnown(olderKey(current)));
}

TEST_F(RefreshTest, WhatNobodyMeasuredIsLeft) {
  writeOld(Source::model);
  EXPECT_EQ(refreshed(), State::stale);
}

TEST_F(RefreshTest, ItsOwnChoiceStays) {
  writeOld(Source::measured);
  const Key current = Store::open(now, Store::Access::read)->keys().at(0).key;
  {
    auto store = Store::open(old, Store::Access::write);
    store->choose(current, {"", "", Source::vendor, "the vendor's is faster", 0});
  }
  for (const cache::Refreshed& choice : cache::refresh(old))
    EXPECT_EQ(choice.state, State::current);
  EXPECT_EQ(Store::open(old, Store::Access::read)->choice(current)->source, Source::vendor);
}

TEST_F(RefreshTest, ProgressTellsAll) {
  writeOld(Source::measured);
  std::vector<std::pair<std::size_t, std::size_t>> steps;
  cache::refresh(old, {}, [&](std::size_t done, std::size_t of) { steps.emplace_back(done, of); });
  EXPECT_EQ(steps, (std::vector<std::pair<std::size_t, std::size_t>>{{1, 1}}));
}

} // namespace
} // namespace kiln::autotune
