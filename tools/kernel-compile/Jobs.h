// What a verb works on: one .mlir file, one op, or every line of a workload file. Each becomes a
// job; jobs are compiled by several threads and fail one by one, never all together.
#pragma once

#include "kiln/kiln.h"
#include "kiln/workload.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

namespace kiln::tool {

/// The options that all verbs share, as they came from the command line.
struct Request {
  std::string file; // .mlir, "-", or the text of a stage with --from
  std::string op;
  std::string shape;
  std::string dtype = "f32";
  std::vector<std::string> settings; // NAME=VALUE, some of them with commas between
  std::string workload;
  std::string function;
  std::string schedule;
  std::string arch = "sm_90a";
  std::string from;
  std::string nvrtc;
  std::string saveTemps;
  std::string sizes;
  bool backward = false;
  bool noReadAhead = false;
  bool json = false;
  unsigned jobs = 0; // 0: one a core

  CompileOptions compileOptions() const;
};

/// Adds the options that say what to compile and for what. `several`: workloads are allowed.
void addSourceOptions(CLI::App& verb, Request& request, bool several);
/// Adds --sizes to a verb that works at certain sizes.
void addSizes(CLI::App& verb, Request& request);

struct Job {
  std::string label;               // "layer_norm 65536x128 bf16 backward"
  std::string stem;                // "layer_norm_65536x128_bf16_backward", for file names
  double share = 0;                // of all calls; 0: not from a workload
  std::vector<std::int64_t> sizes; // run-time sizes
  CompileOptions options;
  std::optional<Stage> from;         // resume from the text of this stage
  std::function<std::string()> text; // of the file; null for an op
  std::string name;                  // of the file, in messages
  OpSpec op;

  Module module() const;
  Program program() const;
};

struct JobList {
  std::vector<Job> jobs;
  std::vector<std::string> errors; // bad lines of a workload
};

/// Throws CLI::ValidationError for contradictory options, Error for what cannot be read.
JobList jobsOf(const Request& request);

struct Failure {
  ErrorKind kind = ErrorKind::input;
  std::string text;
};

/// Runs `work` for each job on `threads` threads; what it throws ends that job only.
std::vector<std::optional<Failure>> runJobs(const std::vector<Job>& jobs, unsigned threads,
                                            bool quiet,
                                            const std::function<void(std::size_t)>& work);

int exitCode(ErrorKind kind);
std::string_view kindName(ErrorKind kind);
nlohmann::ordered_json toJson(const Failure& failure);
/// The last part of a path from a label or a name: it stays within its folder.
std::string fileName(std::string text);

/// Complains about every failure; the exit code they amount to, 0 without any.
int report(const std::vector<Job>& jobs, const std::vector<std::optional<Failure>>& failures,
           const std::vector<std::string>& errors);

} // namespace kiln::tool
