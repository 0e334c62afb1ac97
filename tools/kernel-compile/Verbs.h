// The verbs of kernel-compile. Each adds itself, its options and an example to the application;
// when it was asked for, it runs during parsing and leaves its exit code here.
#pragma once

#include "tools/kernel-compile/Jobs.h"

#include <CLI/CLI.hpp>

namespace kiln::tool {

struct Outcome {
  int code = 0;
  bool json = false; // errors are to be told as JSON too
};

void addCompile(CLI::App& app, Outcome& outcome);
void addPlan(CLI::App& app, Outcome& outcome);
void addInspect(CLI::App& app, Outcome& outcome);
void addRun(CLI::App& app, Outcome& outcome);
void addTune(CLI::App& app, Outcome& outcome);
void addBench(CLI::App& app, Outcome& outcome);
void addVerify(CLI::App& app, Outcome& outcome);
void addRegress(CLI::App& app, Outcome& outcome);
void addExplain(CLI::App& app, Outcome& outcome);
void addReport(CLI::App& app, Outcome& outcome);
void addCache(CLI::App& app, Outcome& outcome);
void addDoctor(CLI::App& app, Outcome& outcome);
void addGenerate(CLI::App& app); // hidden

} // namespace kiln::tool
