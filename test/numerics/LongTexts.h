// Texts of functions that are too much for one kernel.
#pragma once

#include <fmt/format.h>

#include <string>

namespace kiln::test {

/// tanh(sin(tanh(...))): values stay finite however long it is.
inline std::string longChainText(int operations, int width = 128) {
  const std::string type = fmt::format("tensor<?x{}xf32>", width);
  std::string text = fmt::format("func.func @chain(%x: {0}) -> {0} {{\n", type), last = "%x";
  for (int i = 0; i < operations; ++i) {
    text += fmt::format("  %v{} = math.{} {} : {}\n", i, i % 2 == 0 ? "tanh" : "sin", last, type);
    last = fmt::format("%v{}", i);
  }
  return text + fmt::format("  return {} : {}\n}}\n", last, type);
}

/// An elementary function of itself, so many times: of exponentials it is `exp(exp(...))`.
inline std::string repeatedText(const std::string& operation, int operations, int width = 128) {
  const std::string type = fmt::format("tensor<?x{}xf32>", width);
  std::string text = fmt::format("func.func @repeated(%v0: {0}) -> {0} {{\n", type);
  for (int i = 0; i < operations; ++i)
    text += fmt::format("  %v{} = math.{} %v{} : {}\n", i + 1, operation, i, type);
  return text + fmt::format("  return %v{} : {}\n}}\n", operations, type);
}

/// Products of the last two values, all of which the backward needs.
inline std::string productsText(int operations, int width = 128) {
  const std::string type = fmt::format("tensor<?x{}xf32>", width);
  std::string text = fmt::format("func.func @products(%v0: {0}, %v1: {0}) -> {0} {{\n", type);
  for (int i = 2; i < operations + 2; ++i)
    text += fmt::format("  %v{} = arith.mulf %v{}, %v{} : {}\n", i, i - 1, i - 2, type);
  return text + fmt::format("  return %v{} : {}\n}}\n", operations + 1, type);
}

inline std::string longSumText(int operands, int width = 128) {
  const std::string type = fmt::format("tensor<?x{}xf32>", width);
  std::string arguments = "%a0: " + type, text, last = "%a0";
  for (int i = 1; i < operands; ++i) {
    arguments += fmt::format(", %a{}: {}", i, type);
    text += fmt::format("  %v{} = arith.addf {}, %a{} : {}\n", i, last, i, type);
    last = fmt::format("%v{}", i);
  }
  return fmt::format("func.func @total({}) -> {} {{\n{}  return {} : {}\n}}\n", arguments, type,
                     text, last, type);
}

/// The same over a list of tensors.
inline std::string longListText(int operations) {
  std::string text = "func.func @steps(%p: tensor<?xf32> {kiln.list}) -> "
                     "(tensor<?xf32> {kiln.list}) {\n",
              last = "%p";
  for (int i = 0; i < operations; ++i) {
    text += fmt::format("  %v{} = math.tanh {} : tensor<?xf32>\n", i, last);
    last = fmt::format("%v{}", i);
  }
  return text + fmt::format("  return {} : tensor<?xf32>\n}}\n", last);
}

/// Operands whose sizes have nothing to do with each other.
inline std::string manySizesText(int operands) {
  const std::string type = "tensor<?x8xf32>";
  std::string arguments, types, values, text;
  for (int i = 0; i < operands; ++i) {
    const char* comma = i == 0 ? "" : ", ";
    arguments += fmt::format("{}%a{}: {}", comma, i, type);
    types += comma + type;
    values += fmt::format("{}%r{}", comma, i);
    text += fmt::format("  %r{0} = math.exp %a{0} : {1}\n", i, type);
  }
  return fmt::format("func.func @sizes({}) -> ({}) {{\n{}  return {} : {}\n}}\n", arguments, types,
                     text, values, types);
}

/// Each of so many operations reads the one tensor.
inline std::string manyReadersText(int readers) {
  const std::string type = "tensor<?x64xf32>";
  std::string text = fmt::format("func.func @readers(%x: {0}) -> {0} {{\n", type), sums,
              last = "%r0";
  for (int i = 0; i < readers; ++i) {
    text +=
        fmt::format("  %k{0} = arith.constant dense<{0}.5> : tensor<64xf32>\n"
                    "  %c{0} = kiln.broadcast %k{0} dims [1] like %x : tensor<64xf32>, {1} -> {1}\n"
                    "  %r{0} = arith.mulf %x, %c{0} : {1}\n",
                    i, type);
    if (i == 0)
      continue;
    sums += fmt::format("  %s{} = arith.addf {}, %r{} : {}\n", i, last, i, type);
    last = fmt::format("%s{}", i);
  }
  return text + sums + fmt::format("  return {} : {}\n}}\n", last, type);
}

} // namespace kiln::test
