// Misspelt words: how far they are from those allowed, and which of these is told.
#include "dialect/DidYouMean.h"

#include <gtest/gtest.h>

using namespace kiln;

namespace {

TEST(DidYouMean, Distances) {
  EXPECT_EQ(editDistance("", ""), 0u);
  EXPECT_EQ(editDistance("", "abc"), 3u);
  EXPECT_EQ(editDistance("abc", ""), 3u);
  EXPECT_EQ(editDistance("bf16", "bf16"), 0u);
  EXPECT_EQ(editDistance("bf61", "bf16"), 1u); // neighbours swapped
  EXPECT_EQ(editDistance("layernorm", "layer_norm"), 1u);
  EXPECT_EQ(editDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(editDistance("Save_Temps", "save-temps"), 0u);
}

TEST(DidYouMean, TheNearestOrNone) {
  const std::vector<std::string> words = {"compile", "plan", "inspect", "run", "tune"};
  EXPECT_EQ(nearestWord("complie", words), "compile");
  EXPECT_EQ(nearestWord("tnue", words), "tune");
  EXPECT_EQ(nearestWord("RUN", words), "run");
  EXPECT_EQ(nearestWord("draw", words), "");
  EXPECT_EQ(nearestWord("", words), "");
  EXPECT_EQ(nearestWord("x", std::vector<std::string>{"y"}), ""); // nothing of it would be left
  EXPECT_EQ(didYouMean("plam", words), "; did you mean 'plan'?");
  EXPECT_EQ(didYouMean("paint", words), "");
}

TEST(DidYouMean, ALongTextTakesNoTime) {
  const std::vector<std::string> words = {std::string(1 << 20, 'a'), "compile"};
  EXPECT_EQ(nearestWord(std::string(1 << 20, 'a'), words), "");
}

} // namespace
