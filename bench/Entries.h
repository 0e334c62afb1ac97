// What the benchmarks of row kernels have in common: the entries of a workload file, each once;
// the default schedule compiled for them; and the JSON form in which every one of them reports,
// the Python peers included.
#pragma once

#include "kiln/kiln.h"
#include "kiln/verify.h"
#include "kiln/workload.h"

#include <nlohmann/json.hpp>

#include <optional>

namespace kiln::bench {

using Json = nlohmann::ordered_json;

struct Arguments {
  std::string workload;
  std::filesystem::path json; // empty: write none
  CompileOptions compile;     // --arch, --nvrtc
  std::string command;        // as it was given
};

/// `--workload=FILE --json=FILE --arch=ARCH --nvrtc=FILE`; throws Error(input) for anything else.
/// `workload`: the one that is taken if none is named.
Arguments parseArguments(std::span<char*> given, std::string command,
                         std::string workload = "bench/workloads/alphafold_layernorm.txt");
std::string commandText(std::span<char*> given);
/// Takes `option`, such as "--store=", out of the words; its value, if it is there.
std::optional<std::string> takeOption(std::vector<char*>& words, std::string_view option);

struct Entry {
  WorkloadEntry workload;
  double share = 0; // of all lines that say the same
  std::string shape() const;
  std::string dtype() const { return std::string(name(workload.dtype)); }
  std::string direction() const { return workload.backward ? "backward" : "forward"; }
  std::string what() const; // of a file the function that is asked for, or else its stem
  std::string label() const;
  /// Values of the run-time sizes.
  std::vector<std::int64_t> sizes() const;
  /// The columns by which reports are matched.
  Json key() const;
};

/// Throws Error(input) if a line is bad.
std::vector<Entry> readEntries(const std::string& path);

/// The entry's function or op, with its very sizes.
Module moduleOf(const Entry& entry);

/// With the schedule of `options`, or else the default one for the entry's shape, but a row count
/// known only at run time, so that the same code is verified on few rows and timed on many.
Program compileEntry(const Entry& entry, const CompileOptions& options);

/// Of a comparison with fp64; empty if nothing is.
std::string whatIsWrong(const Verification& verification);

/// Device, date, command and who reports; no device: "none".
Json reportHeader(const Arguments& arguments, const std::string& source);
/// Into the file that the arguments name, if any.
void writeReport(const Arguments& arguments, const Json& report);

} // namespace kiln::bench
