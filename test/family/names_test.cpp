// Shared rooms know no family by its name, and no operation that a family adds to the exit dialect;
// no room includes one that stands on it, and models include no private header.
#include "kiln/files.h"

#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string_view>

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
std::vector<std::string> forbidden() {
  std::vector<std::string> all;
  for (const std::string& family : families()) {
    all.push_back(family + "::");
    all.push_back("families/" + family);
    if (family.find('_') != std::string::npos)
      all.push_back(family);
  }
  for (const std::string& operation : operationsOfFamilies())
    all.push_back("cu::" + operation);
  return all;
}

/// Whether one of them occurs as a name of its own, not as a part of one.
bool names(std::string_view text, const std::vector<std::string>& words) {
  const auto isOfName = [&](std::size_t at) {
    return at < text.size() && (std::isalnum(text[at]) != 0 || text[at] == '_');
  };
  for (const std::string& word : words)
    for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
      const std::size_t end = at + word.size();
      const bool goesOn = isOfName(end) && word.back() != ':';
      if (!goesOn && (at == 0 || !isOfName(at - 1)))
        return true;
    }
  return false;
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
  const std::vector<std::string> words = forbidden();
  ASSERT_TRUE(names("  rows::check(", words));
  ASSERT_TRUE(names("dyn_cast<cu::RowReduceOp>", words));
  ASSERT_TRUE(names("if (family == \"multi_tensor\")", words));
  ASSERT_FALSE(names("narrows::check(), cu::RowReduceOperation, my_multi_tensor", words));
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
        EXPECT_FALSE(names(line, words)) << entry.path() << ":" << number << ": " << line;
    }
  EXPECT_GT(files, 300);
}

} // namespace
