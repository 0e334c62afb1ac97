// Workload files: what a program computes and how often, as short text that a person can write.
//
//   # what        shape       dtype     share   options
//   layer_norm    65536x128   bf16,f32  60%     forward,backward
//   attention     8x16x4096x64 bf16     30%     backward causal=last,key_heads=4
//   gate.mlir     8192        -         10%     function=gate
//
// One line an entry, fields parted by blanks, `#` starts a comment. `what` is an op's name, or an
// .mlir file beside the workload file. `shape` holds an op's sizes, leading ones first; for a file
// the values of its run-time sizes, `-` if it has none. `dtype` is any that parseDType() reads, `-`
// for a file. `share` is the part of all calls, a fraction or a percentage. Options are `forward`
// (the default), `backward`, `no_read_ahead` (of the backward: CompileOptions::readAhead is false),
// `function=NAME` of a file, and the settings of an op, `NAME=VALUE` (OpSpec::settings). Several
// dtypes, or both directions, stand for one entry each.
#pragma once

#include "kiln/kiln.h"

namespace kiln {

/// For labels: "", " backward" or " backward no_read_ahead".
inline std::string directionLabel(const CompileOptions& options) {
  return !options.backward ? "" : options.readAhead ? " backward" : " backward no_read_ahead";
}

/// For labels: "" or " causal=last key_heads=4".
inline std::string settingsLabel(std::span<const std::pair<std::string, std::string>> settings) {
  std::string label;
  for (const auto& [name, value] : settings)
    label.append(" ").append(name).append("=").append(value);
  return label;
}

struct WorkloadEntry {
  std::string what;
  bool isFile = false; // `what` is a path, already joined with the folder
  std::vector<std::int64_t> shape;
  DType dtype = DType::f32; // of an op
  double share = 0;         // 0..1
  bool backward = false;
  bool readAhead = true;
  std::string function;                                      // of a file; empty: its only one
  std::vector<std::pair<std::string, std::string>> settings; // of an op
  int line = 0;

  OpSpec op() const { return {what, shape, dtype, settings}; }

  /// `given` with what the entry says.
  CompileOptions options(CompileOptions given = {}) const {
    given.backward = backward;
    given.readAhead = readAhead;
    given.function = function;
    return given;
  }
  std::string direction() const { return directionLabel(options()); }
};

struct Workload {
  std::vector<WorkloadEntry> entries;
  std::vector<std::string> errors; // "name:3: ...", one a bad line; the other lines are entries
};

/// "65536x128" or "?x128" (-1 for what is known at run time). Throws Error(input).
KILN_API std::vector<std::int64_t> parseShape(std::string_view text);
KILN_API std::string shapeText(std::span<const std::int64_t> shape);

/// "causal=last,key_heads=4" as names and values. Throws Error(input).
KILN_API std::vector<std::pair<std::string, std::string>> parseSettings(std::string_view text);

/// Never throws for bad lines: they are listed. `name` is the file's path or a name for messages.
KILN_API Workload parseWorkload(std::string_view text, std::string_view name = "<string>");

} // namespace kiln
