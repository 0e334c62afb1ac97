// Kiln's errors against fp64 on the layer_norm entries of a workload file, at most 4096 rows each,
// as JSON that peers_rows.py's errors can be put beside: both draw the same inputs. On the GPU, or
// on the host target if there is none.
//   errors [--workload=FILE] [--json=FILE] [--arch=sm_90a] [--nvrtc=FILE]
#include "bench/Entries.h"
#include "codegen/backend/Driver.h"
#include "kiln/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

using namespace kiln;
using namespace kiln::bench;

namespace {

constexpr std::int64_t kRows = 4096;
constexpr double kEpsilon = 1e-5;

/// Near a normal distribution, and the same bits in peers_rows.py: four 16-bit fields of a hash,
/// added and centred, then one product in fp32.
float drawn(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t h = index * 0x9E3779B97F4A7C15u + seed * 0xBF58476D1CE4E5B9u;
  h ^= h >> 32;
  h *= 0x94D049BB133111EBu;
  h ^= h >> 29;
  auto sum = (h & 0xffff) + (h >> 16 & 0xffff) + (h >> 32 & 0xffff) + (h >> 48);
  return static_cast<float>(static_cast<std::int64_t>(sum) - 131070) * (1.7320508f / 65536);
}

float rounded(DType dtype, float value) {
  if (dtype == DType::f16)
    return static_cast<float>(static_cast<_Float16>(value));
  if (dtype != DType::bf16)
    return value;
  auto bits = std::bit_cast<std::uint32_t>(value);
  bits += 0x7fff + (bits >> 16 & 1);
  return std::bit_cast<float>(bits & 0xffff0000);
}

using Values = std::vector<float>;

Values draw(DType dtype, std::uint64_t seed, std::int64_t count, float scale = 1,
            float offset = 0) {
  Values values(count);
  for (std::int64_t i = 0; i < count; ++i)
    values[i] = rounded(dtype, offset + scale * drawn(seed, i));
  return values;
}

/// Mean or rstd of each row, as the forward would have saved them.
Values statistic(const Values& x, std::int64_t width, bool rstd) {
  Values result;
  for (std::size_t row = 0; row < x.size(); row += width) {
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; i < width; ++i)
      mean += x[row + i] / static_cast<double>(width);
    for (std::int64_t i = 0; i < width; ++i)
      variance += (x[row + i] - mean) * (x[row + i] - mean) / static_cast<double>(width);
    result.push_back(static_cast<float>(rstd ? 1 / std::sqrt(variance + kEpsilon) : mean));
  }
  return result;
}

NpyArray arrayOf(const Values& values, std::vector<std::int64_t> shape) {
  NpyArray array{DType::f32, std::move(shape), {}};
  array.data.resize(values.size() * sizeof(float));
  std::memcpy(array.data.data(), values.data(), array.data.size());
  return array;
}

/// Few rows are drawn several times: the rms of a few hundred sums alone would be mostly chance.
int drawsOf(std::int64_t rows) {
  return static_cast<int>(std::clamp<std::int64_t>(kRows / std::max<std::int64_t>(rows, 1), 1, 16));
}

/// The arguments of layer_norm or of its backward, by their names. Parameters are rounded to the
/// entry's dtype: the peers hold them so.
std::vector<NpyArray> inputsOf(const Program& program, const Entry& entry, std::int64_t rows,
                               int draws) {
  const std::uint64_t first = 4 * draws;
  const std::int64_t width = entry.workload.shape.back();
  const DType dtype = entry.workload.dtype;
  const Values x = draw(dtype, first + 1, rows * width);
  std::vector<NpyArray> inputs;
  for (const TensorInfo& info : program.inputs())
    if (info.name == "x")
      inputs.push_back(arrayOf(x, {rows, width}));
    else if (info.name == "gamma")
      inputs.push_back(arrayOf(draw(dtype, first + 2, width, 0.125f, 1), {width}));
    else if (info.name == "beta")
      inputs.push_back(arrayOf(draw(dtype, first + 3, width, 0.125f), {width}));
    else if (info.name == "dy")
      inputs.push_back(arrayOf(draw(dtype, first + 4, rows * width), {rows, width}));
    else if (info.name == "mean" || info.name == "rstd")
      inputs.push_back(arrayOf(statistic(x, width, info.name == "rstd"), {rows}));
    else
      throw Error(ErrorKind::input, fmt::format("{}: argument '{}' is none of layer_norm's",
                                                entry.label(), info.name));
  return inputs;
}

/// One line an output; false if verification failed, or nothing could be compiled.
bool add(Json& list, const Entry& entry, const CompileOptions& options, Where where) try {
  Program program = compileEntry(entry, options);
  std::int64_t rows = 1;
  for (std::int64_t size : entry.sizes())
    rows *= size;
  rows = std::min(rows, kRows);
  RunOptions run;
  run.where = where;
  std::vector<Verification> verified;
  for (int draws = 0; draws < drawsOf(rows); ++draws) {
    run.inputs = inputsOf(program, entry, rows, draws);
    verified.push_back(verify(program, run));
  }
  bool allPassed = true;
  for (std::size_t i = 0; i < verified.front().outputs.size(); ++i) {
    Json line = {{"source", "kiln"}};
    line.update(entry.key());
    double largest = 0, squares = 0;
    bool passed = true, repeatable = true;
    for (const Verification& verification : verified) {
      const OutputCheck& output = verification.outputs[i];
      largest = std::max(largest, output.maxError);
      squares += output.rmsError * output.rmsError / static_cast<double>(verified.size());
      passed &= output.passed;
      repeatable &= verification.repeatable;
      allPassed &= verification.passed;
    }
    line["rows"] = rows;
    line["draws"] = verified.size();
    line["output"] = verified.front().outputs[i].name;
    line["output_dtype"] = name(verified.front().outputs[i].dtype);
    line["max_abs"] = largest;
    line["rms"] = std::sqrt(squares);
    line["passed"] = passed;
    line["repeatable"] = repeatable;
    list.push_back(line);
  }
  return allPassed;
} catch (const Error& error) {
  Json line = {{"source", "kiln"}};
  line.update(entry.key());
  line["trouble"] = error.what();
  list.push_back(line);
  fmt::print(stderr, "{}\n", error.what());
  return false;
}

} // namespace

int main(int count, char** given) try {
  std::span<char*> words(given, count);
  Arguments arguments = parseArguments(words, commandText(words));
  Where where = whyNoGpu().empty() ? Where::gpu : Where::host;
  Json json = reportHeader(arguments, "kiln");
  json["target"] = where == Where::gpu ? "gpu" : "host";
  json["errors"] = Json::array();
  bool passed = true;
  for (const Entry& entry : readEntries(arguments.workload))
    if (entry.workload.what == "layer_norm" && entry.workload.shape.size() == 2) {
      bool good = add(json["errors"], entry, arguments.compile, where);
      fmt::print(stderr, "{}: {}\n", entry.label(), good ? "passed" : "FAILED");
      passed &= good;
    }
  if (arguments.json.empty())
    fmt::print("{}\n", json.dump(2));
  writeReport(arguments, json);
  return passed ? 0 : 1;
} catch (const Error& error) {
  fmt::print(stderr, "errors: {}\n", error.what());
  return 1;
}
