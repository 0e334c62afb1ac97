// Shared rooms know no family by its name, and no operation that a family adds to the exit dialect;
// no room includes one that stands on it, and models include no private header.
#include "kiln/files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>

namespace {

namespace fs = std::filesystem;

const fs::path kSources = KILN_SOURCE_FOLDER;
constexpr const char* kSharedRooms[] = {"codegen/backend", "codegen/emit",   "codegen/exit",
                                        "codegen/family",  "codegen/host",   "codegen/include",
                                        "codegen/model",   "codegen/passes", "codegen/program",
                                        "autotune",        "dialect",        "runtime",
                                        "models",          "tools"};

std::vector<std::string> families() {
  std::istringstream words(KILN_FAMILIES_TEXT);
  return {std::istream_iterator<std::string>(words), {}};
}

/// "LoadOp" of `def Cu_LoadOp`, of all families.
std::vector<std::string> operationsOfFamilies() {
  std::vector<std::string> names;
  const std::regex definition(R"(def Cu_(\w+Op)\b)");
  for (const std::string& family : families()) {
    const fs::path file = kSources / "codegen/families" / family / "Exit.td";
    if (!exists(file))
      continue;
    const std::string text = kiln::readFile(file);
    for (std::sregex_iterator at(text.begin(), text.end(), definition), end; at != end; ++at)
      names.push_back((*at)[1]);
  }
  return names;
}

/// What must not occur: namespaces, folders and operations. The name of a family may be a word of
/// English, unless it is written with an underscore.
std::regex forbidden() {
  std::string any;
  const auto add = [&](const std::string& pattern) { any += (any.empty() ? "" : "|") + pattern; };
  for (const std::string& family : families()) {
    add(R"(\b)" + family + "::");
    add("families/" + family);
    if (family.find('_') != std::string::npos)
      add(R"(\b)" + family + R"(\b)");
  }
  for (const std::string& operation : operationsOfFamilies())
    add(R"(\bcu::)" + operation + R"(\b)");
  return std::regex(any);
}

/// Whether a line can hold one: most hold none of these, which takes less time to see.
bool mayName(const std::string& line) {
  static const std::vector<std::string> parts = [] {
    std::vector<std::string> all = {"cu::", "families/"};
    for (const std::string& family : families())
      all.push_back(family.find('_') != std::string::npos ? family : family + "::");
    return all;
  }();
  return std::ranges::any_of(
      parts, [&](const std::string& part) { return line.find(part) != std::string::npos; });
}

/// Models are programs of users: they build from what an installation has.
TEST(Models, IncludePublicHeadersOnly) {
  const std::regex privateHeader(R"(#include "(autotune|codegen|dialect|runtime)/)");
  ASSERT_TRUE(std::regex_search("#include \"codegen/backend/Fail.h\"", privateHeader));
  for (const auto& entry : fs::recursive_directory_iterator(kSources / "models")) {
    const std::string suffix = entry.path().extension();
    if (suffix == ".h" || suffix == ".cpp") {
      EXPECT_FALSE(std::regex_search(kiln::readFile(entry.path()), privateHeader)) << entry.path();
    }
  }
}

/// dialect <- codegen <- autotune <- runtime <- models: nothing points back, but that a command of
/// a model tells its progress as others do. What links alone says the same of libraries
/// (dialect_alone, codegen_alone).
TEST(Rooms, IncludeNoneThatStandOnThem) {
  const char* rooms[] = {"dialect", "codegen", "autotune", "runtime", "models"};
  int files = 0;
  for (std::size_t room = 0; room < std::size(rooms); ++room) {
    std::string above = "tools|bench|test";
    for (std::size_t later = room + 1; later < std::size(rooms); ++later)
      above += std::string("|") + rooms[later];
    const std::regex back("#include \"(" + above + ")/");
    ASSERT_TRUE(std::regex_search("#include \"test/Errors.h\"", back));
    for (const auto& entry : fs::recursive_directory_iterator(kSources / rooms[room])) {
      const std::string suffix = entry.path().extension();
      const bool isText = suffix == ".h" || suffix == ".cpp" || suffix == ".td";
      if (!isText || entry.path().filename() == "Main.cpp")
        continue;
      ++files;
      EXPECT_FALSE(std::regex_search(kiln::readFile(entry.path()), back)) << entry.path();
    }
  }
  EXPECT_GT(files, 400);
}

TEST(SharedRooms, NameNoFamily) {
  ASSERT_GE(families().size(), 3U);
  ASSERT_GE(operationsOfFamilies().size(), 30U);
  const std::regex pattern = forbidden();
  ASSERT_TRUE(std::regex_search("  rows::check(", pattern));
  ASSERT_TRUE(std::regex_search("dyn_cast<cu::RowReduceOp>", pattern));
  ASSERT_TRUE(std::regex_search("if (family == \"multi_tensor\")", pattern));
  int files = 0;
  for (const char* room : kSharedRooms)
    for (const auto& entry : fs::recursive_directory_iterator(kSources / room)) {
      const std::string suffix = entry.path().extension();
      const bool isText = suffix == ".h" || suffix == ".cpp" || suffix == ".td" ||
                          suffix == ".def" || entry.path().filename() == "CMakeLists.txt";
      if (!isText)
        continue;
      ++files;
      std::istringstream lines(kiln::readFile(entry.path()));
      int number = 0;
      for (std::string line; ++number, std::getline(lines, line);)
        EXPECT_FALSE(mayName(line) && std::regex_search(line, pattern))
            << entry.path() << ":" << number << ": " << line;
    }
  EXPECT_GT(files, 300);
}

} // namespace
