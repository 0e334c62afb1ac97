// Completeness: an op is three files of one stem and rows in the numerics table; a scalar operation
// has a reference and a text.
#include "codegen/emit/ScalarText.h"
#include "dialect/Scalar.h"
#include "test/numerics/Table.h"
#include "test/unit/Context.h"

#include <filesystem>
#include <set>
#include <sstream>

using namespace kiln;
using namespace kiln::test;

namespace {

std::vector<std::string> listedOps() {
  std::istringstream words(KILN_OPS_TEXT);
  return {std::istream_iterator<std::string>(words), {}};
}

std::string snakeCase(const std::string& word) {
  std::string snake;
  for (char c : word) {
    if (std::isupper(c) && !snake.empty())
      snake += '_';
    snake += static_cast<char>(std::tolower(c));
  }
  return snake;
}

TEST(OpList, EveryWordHasItsThreeFiles) {
  std::filesystem::path root = KILN_SOURCE_FOLDER;
  EXPECT_GE(listedOps().size(), 6u);
  for (const std::string& op : listedOps()) {
    EXPECT_TRUE(exists(root / "dialect/ops" / (op + ".td"))) << op;
    EXPECT_TRUE(exists(root / "dialect/ops" / (op + ".cpp"))) << op;
    EXPECT_TRUE(exists(root / "test/ops" / (snakeCase(op) + ".mlir"))) << op;
  }
}

TEST(OpList, NoFileIsLeftOver) {
  std::set<std::string> stems, tests;
  for (const std::string& op : listedOps()) {
    stems.insert(op);
    tests.insert(snakeCase(op));
  }
  std::filesystem::path root = KILN_SOURCE_FOLDER;
  for (const auto& entry : std::filesystem::directory_iterator(root / "dialect/ops"))
    EXPECT_TRUE(stems.contains(entry.path().stem())) << entry.path();
  for (const auto& entry : std::filesystem::directory_iterator(root / "test/ops"))
    EXPECT_TRUE(tests.contains(entry.path().stem())) << entry.path();
}

/// Each word is an operation of the dialect, and the other way round (kiln.yield belongs to
/// Kernel).
TEST(OpList, WordsAreTheOperationsOfTheDialect) {
  std::set<std::string> wanted{"kiln.yield"}, registered;
  for (const std::string& op : listedOps())
    wanted.insert("kiln." + snakeCase(op));
  Context context;
  for (mlir::RegisteredOperationName name : context.context.getRegisteredOperations())
    if (name.getDialectNamespace() == "kiln")
      registered.insert(name.getStringRef().str());
  EXPECT_EQ(registered, wanted);
}

TEST(OpList, EveryWordHasRowsInTheNumericsTable) {
  std::map<std::string, int> rows;
  std::set<std::string> names;
  for (const Case& numericCase : allCases()) {
    ++rows[numericCase.op];
    EXPECT_TRUE(names.insert(numericCase.name).second) << numericCase.name << " stands twice";
  }
  for (const std::string& op : listedOps())
    EXPECT_GE(rows[op], 3) << op;
}

TEST(ScalarOps, ReferencesAndTextsAreOfTheSameOperations) {
  std::set<std::string> references, texts;
  for (const ir::ScalarOp& op : ir::scalarOps())
    EXPECT_TRUE(references.insert(op.name.str()).second) << op.name.str();
  for (const ScalarText& text : scalarTexts())
    EXPECT_TRUE(texts.insert(text.name.str()).second) << text.name.str();
  EXPECT_EQ(references, texts);
  Context context;
  for (const std::string& name : references)
    EXPECT_TRUE(mlir::RegisteredOperationName::lookup(name, &context.context)) << name;
}

} // namespace
