// Products of matrices by chosen algorithms: which products a choice may be for, files of choices,
// and what options refuse. On tensors of the CPU, where nothing is routed.
#include "kiln/files.h"
#include "runtime/products/Choices.h"
#include "test/backend/Helpers.h"
#include "test/torch/Helpers.h"

#include <nlohmann/json.hpp>

using namespace kiln;
using namespace kiln::runtime;
using namespace kiln::test;
using at::Tensor;

namespace {

Tensor matrix(std::vector<std::int64_t> sizes, at::ScalarType type = at::kBFloat16) {
  return at::empty(sizes, type);
}

class Products : public testing::Test {
 protected:
  TemporaryFolder temporary;
  const std::filesystem::path& folder = temporary.path;
};

TEST(Product, IsToldFromTensors) {
  const Tensor x = matrix({96, 128}), w = matrix({64, 128});
  const auto linear = productOf(x, w.t(), Added::nothing);
  ASSERT_TRUE(linear);
  EXPECT_EQ(*linear,
            (Product{.m = 96, .n = 64, .k = 128, .lda = 128, .ldb = 128, .byColumnsB = true}));
  const auto weights = productOf(matrix({96, 64}).t(), x, Added::nothing);
  ASSERT_TRUE(weights);
  EXPECT_TRUE(weights->byColumnsA);
  EXPECT_EQ(weights->lda, 64);
  const auto part = productOf(matrix({96, 256}).narrow(1, 128, 128), w.t(), Added::sum);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->lda, 256);
  EXPECT_EQ(part->added, Added::sum);
  EXPECT_FALSE(*part == *linear);
  const auto batch =
      productOf(x.expand({3, 96, 128}), matrix({3, 128, 64}, at::kBFloat16), Added::nothing);
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->batch, 3);
  EXPECT_EQ(batch->strideA, 0);
  EXPECT_EQ(batch->strideB, 128 * 64);
  EXPECT_EQ(textOf(*batch), "3x96x128x64 bf16");
}

TEST(Product, IsNoneOfOtherTensors) {
  const Tensor x = matrix({96, 128}), w = matrix({128, 64});
  const std::vector<std::pair<Tensor, Tensor>> others = {
      {matrix({96, 128}, at::kFloat), matrix({128, 64}, at::kFloat)},
      {x, matrix({128, 64}, at::kHalf)},
      {x, matrix({64, 64})},                          // sizes that do not fit
      {matrix({32, 128}), w},                         // few rows
      {matrix({96, 256}).slice(1, 0, 256, 2), w},     // no dense dimension
      {matrix({96, 132}).narrow(1, 0, 128), w},       // rows of no multiple of 16 bytes
      {matrix({96, 136}).narrow(1, 1, 128), w},       // that begin at none
      {x, matrix({128, 68}).narrow(1, 0, 68)},        // results of none
      {x.expand({2, 96, 128}), matrix({3, 128, 64})}, // batches of two sizes
      {x.unsqueeze(0).unsqueeze(0), w.unsqueeze(0).unsqueeze(0)}}; // of two dimensions
  for (std::size_t i = 0; i < others.size(); ++i)
    EXPECT_FALSE(productOf(others[i].first, others[i].second, Added::nothing)) << i;
}

TEST_F(Products, AFileGivesBackWhatWasWritten) {
  const auto file = folder / "products.json";
  Choices choices{"NVIDIA H200", 130100};
  choices.products.push_back({*productOf(matrix({96, 128}), matrix({128, 64}), Added::nothing),
                              Algorithm{1, 2, ~std::uint64_t(0), 4, 5, 6, 7, 8}, 12.5, 14});
  choices.products.push_back(
      {*productOf(matrix({64, 128}, at::kHalf).t(), matrix({64, 256}, at::kHalf), Added::row),
       {},
       0,
       3.25});
  choices.write(file);
  const Choices read = Choices::read(file);
  EXPECT_EQ(read.device, choices.device);
  EXPECT_EQ(read.cublasLt, choices.cublasLt);
  ASSERT_EQ(read.products.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read.products[i].product, choices.products[i].product);
    EXPECT_EQ(read.products[i].algorithm, choices.products[i].algorithm);
    EXPECT_EQ(read.products[i].micros, choices.products[i].micros);
    EXPECT_EQ(read.products[i].byDefault, choices.products[i].byDefault);
  }
}

TEST_F(Products, AnotherFileIsRefusedWithTheReason) {
  const auto file = folder / "products.json";
  Choices choices{"NVIDIA H200", 130100};
  choices.products.push_back(
      {*productOf(matrix({96, 128}), matrix({128, 64}), Added::nothing), Algorithm{}, 12.5, 14});
  choices.write(file);
  const auto good = nlohmann::ordered_json::parse(readFile(file));
  const auto expectRefused = [&](const std::string& text, const std::string& reason) {
    writeFile(file, text);
    const std::string message = errorOf(ErrorKind::input, [&] { Choices::read(file); });
    EXPECT_HAS(message, "has no choices for products");
    EXPECT_HAS(message, reason);
  };
  expectRefused("SQLite format 3", "parse error");
  expectRefused("[]", "kiln_products");
  const auto changed = [&](const std::function<void(nlohmann::ordered_json&)>& change) {
    auto json = good;
    change(json);
    return json.dump();
  };
  expectRefused(changed([](auto& json) { json["kiln_products"] = 2; }), "format 2");
  expectRefused(changed([](auto& json) { json.erase("device"); }), "device");
  expectRefused(changed([](auto& json) { json["products"][0]["added"] = "all"; }), "\"all\"");
  expectRefused(changed([](auto& json) { json["products"][0]["dtype"] = "f64"; }), "\"f64\"");
  expectRefused(changed([](auto& json) { json["products"][0]["m"] = -1; }), "\"m\" is -1");
  expectRefused(changed([](auto& json) { json["products"][0]["algorithm"] = "12"; }),
                "of 2 digits");
  expectRefused(
      changed([](auto& json) { json["products"][0]["algorithm"] = std::string(128, 'x'); }),
      "hexadecimal");
}

TEST_F(Products, OptionsNameAFileThatIsThereOrIsToBeWritten) {
  const auto file = folder / "none.json";
  const std::string named = "products=" + file.string();
  EXPECT_EQ(Options::parse(named).products, file);
  EXPECT_TRUE(Options::parse(named + " tune_products=1").tuneProducts);
  const auto enabling = [&] { enable(Options::parse(named)); };
  EXPECT_HAS(errorOf(ErrorKind::io, enabling), "there is no such file; tune_products=1 writes one");
  writeFile(file, "{}");
  EXPECT_HAS(errorOf(ErrorKind::input, enabling), "has no choices");
}

} // namespace
