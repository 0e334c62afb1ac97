// What the cost model chooses for every workload file, against a committed table: machines and
// processes that run the same Kiln choose the same, to the byte. KILN_UPDATE_GOLDEN=1 writes the
// table anew (test/update-golden.sh does).
#include "kiln/files.h"
#include "kiln/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <regex>

using namespace kiln;

namespace {

constexpr const char* kTable = KILN_SOURCE_FOLDER "/test/unit/model_choices.txt";

std::string choicesOf(const WorkloadEntry& entry) {
  CompileOptions options;
  options.backward = entry.backward;
  options.function = entry.function;
  options.until = Stage::scheduled;
  Module module =
      entry.isFile ? Module::parse(readFile(entry.what), entry.what) : Module::fromOp(entry.op());
  Program program = Program::compile(module, options);
  const std::string& text = program.text(Stage::scheduled);
  static const std::regex schedule("<lanes = [^>]*>");
  std::string all;
  for (std::sregex_iterator i(text.begin(), text.end(), schedule), end; i != end; ++i)
    all += "  " + i->str() + "\n";
  return all;
}

TEST(ModelChoices, AreThoseOfTheTable) {
  std::string now;
  std::filesystem::path folder = KILN_SOURCE_FOLDER "/bench/workloads";
  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    if (file.path().extension() == ".txt")
      files.push_back(file.path());
  std::ranges::sort(files);
  for (const auto& file : files) {
    now += file.filename().string() + "\n";
    for (const WorkloadEntry& entry : parseWorkload(readFile(file), file.string()).entries)
      now += fmt::format(" {} {} {}{}\n{}",
                         entry.isFile ? std::filesystem::path(entry.what).filename().string()
                                      : entry.what,
                         shapeText(entry.shape), entry.isFile ? "-" : name(entry.dtype),
                         entry.backward ? " backward" : "", choicesOf(entry));
  }
  const char* update = std::getenv("KILN_UPDATE_GOLDEN");
  if (update && *update != '\0')
    writeFile(kTable, now);
  EXPECT_EQ(readFile(kTable), now);
}

} // namespace
