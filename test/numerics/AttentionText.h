// A function that is one attention, as text, for the numerics table and for drawn functions.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace kiln::test {

/// Sizes of 0 are run-time sizes.
struct AttentionText {
  std::vector<int> leading = {0};
  int heads = 2, keyHeads = 2, queries = 0, keys = 0, width = 32, valueWidth = 32;
  std::string type = "bf16";
  std::string bias = {}, biasType = "f32"; // "1x2x?x?"
  std::string mask = {};
  int sequences = 0;
  double p = 0;
  std::string attributes = "scale = 0.25 : f32";
  std::string queryLayout = {};
  bool layoutOfAll = false; // of keys and values too

  std::string text() const;

 private:
  std::string shape(std::initializer_list<int> last) const;
};

} // namespace kiln::test
