// The limits of tensor maps, each with its message. What the driver is asked is in
// fake_driver_test.cpp, what a launch makes of a plan in resolve_test.cpp.
#include "codegen/backend/TensorMap.h"
#include "test/backend/Helpers.h"

using namespace kiln;
using namespace kiln::test;

namespace {

TensorMapView form() {
  return {.sizes = {64, 100}, .strides = {128}, .box = {64, 16}, .rank = 2, .dtype = DType::bf16};
}

std::string errorAfter(auto change) {
  TensorMapView view = form();
  change(view);
  return errorOf(ErrorKind::input, [&] { checkTensorMapForm(view, "map"); });
}

TEST(TensorMap, FormsThatAreTaken) {
  TensorMapView view = form();
  for (int swizzle : {0, 128}) {
    view.swizzle = static_cast<std::uint16_t>(swizzle);
    checkTensorMapForm(view, "map");
  }
  view.swizzle = 0;
  view.box = {256, 256}; // without a swizzle rows may be as long
  checkTensorMapForm(view, "map");
  checkTensorMapValues(view, "map");
  view.strides[0] = 0; // the same row again and again
  checkTensorMapValues(view, "map");
}

TEST(TensorMap, FormsThatAreRefused) {
  EXPECT_HAS(errorAfter([](auto& view) { view.rank = 0; }),
             "map has 0 dimensions; a tensor map has");
  EXPECT_HAS(errorAfter([](auto& view) { view.rank = 6; }), "map has 6 dimensions");
  EXPECT_HAS(errorAfter([](auto& view) { view.box[1] = 257; }),
             "map: the box has 257 elements in dimension 1; allowed are 1 to 256");
  EXPECT_HAS(errorAfter([](auto& view) { view.box[1] = 0; }), "the box has 0 elements");
  EXPECT_HAS(errorAfter([](auto& view) { view.box[0] = 12; }),
             "a row of the box has 24 bytes (12 elements of bf16); allowed are multiples of 16");
  EXPECT_HAS(
      errorAfter([](auto& view) { view.swizzle = 64; }),
      "a row of the box has 128 bytes (64 elements of bf16), a swizzle of 64 bytes allows 64; "
      "take a wider swizzle or a box of 32 elements and more copies");
  EXPECT_HAS(errorAfter([](auto& view) { view.swizzle = 16; }), "a swizzle of 16 bytes; allowed");
  EXPECT_HAS(errorAfter([](auto& view) { view.promotion = 32; }),
             "a promotion of 32 bytes; allowed");
}

} // namespace
