// Texts of strangers: names and places in files that would become code or control a terminal,
// nesting without end, names like those that the compiler gives.
#include "test/backend/Helpers.h"
#include "test/unit/Options.h"

#include "kiln/kiln.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

using namespace kiln;
using namespace kiln::test;

namespace {

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i)
    all += text;
  return all;
}

/// exp of a tensor; names as MLIR writes them in quotes.
std::string function(const std::string& name, const std::string& argument = "x",
                     const std::string& location = "") {
  return fmt::format("func.func @\"{}\"(%x: tensor<?x8xf32> {{kiln.name = \"{}\"}}) -> "
                     "tensor<?x8xf32> {{\n  %y = math.exp %x : tensor<?x8xf32>{}\n"
                     "  return %y : tensor<?x8xf32>\n}}\n",
                     name, argument, location);
}

Program compiled(const std::string& text) {
  CompileOptions options = untilCuda();
  return Program::compile(Module::parse(text, "stranger.mlir"), options);
}

std::string refused(const std::string& text) {
  return errorOf(ErrorKind::input, [&] { compiled(text); });
}

/// No line of the text but code that Kiln wrote: without comments it is that of the plain function.
std::string withoutComments(const std::string& cuda) {
  return std::regex_replace(cuda, std::regex("//[^\n]*"), "");
}

TEST(Strangers, NamesWithControlCharactersAreRefused) {
  for (const char* name : {"a\\0Ab", "a\\0Db", "a\\1B[31m", "a\\00", "a\\7F", "a\\C2\\9B31m",
                           "a\\E2\\80\\AE", "a\\FF", "a\\ED\\A0\\80"}) {
    EXPECT_HAS(refused(function(name)),
               "stranger.mlir:1:1: error: the name of a function is 'a\\x");
    EXPECT_HAS(refused(function("f", name)), "the name of argument 0 is 'a\\x");
  }
  EXPECT_HAS(refused("func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {\n"
                     "  %y = kiln.kernel \"k\\0A\"(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32> {\n"
                     "  ^bb0(%a: tensor<?x8xf32>):\n    kiln.yield %a : tensor<?x8xf32>\n  }\n"
                     "  return %y : tensor<?x8xf32>\n}"),
             "the name of a kernel is 'k\\x0a'");
  EXPECT_HAS(refused(function(std::string(100000, 'n'))), "has 100000 letters; up to 500");
  EXPECT_HAS(refused(function("f", std::string(100000, 'n'))), "has 100000 letters; up to 500");
}

TEST(Strangers, NamesAndPlacesAreCommentsOnly) {
  const std::string plain = withoutComments(compiled(function("f")).text(Stage::cuda));
  for (const char* name : {"f", "f//", "f*/", "kiln.launch {", "f\\5C", "\\C3\\A9"})
    for (const char* place :
         {"", " loc(\"a\\0Aint x;\":1:2)", " loc(\"kiln.launch {\":1:2)", " loc(\"a\\5C\":1:2)"}) {
      std::string text = withoutComments(compiled(function(name, "x", place)).text(Stage::cuda));
      text = std::regex_replace(text, std::regex("kiln_\\w*\\("), "kiln_f(");
      EXPECT_EQ(text, plain) << name << place;
    }
  const Program program = compiled(function("f", "x", " loc(\"\\1B[2J\":1:2)"));
  EXPECT_HAS(program.text(Stage::cuda), "// \\x1b[2J:1\n");
  const std::string longName(500, '\\');
  EXPECT_NO_THROW(compiled(function(repeated("\\5C", 500))));
}

TEST(Strangers, AnEditedStageHoldsNoCode) {
  CompileOptions options = untilCuda();
  CompileOptions emittable;
  emittable.until = Stage::emittable;
  const std::string text =
      Program::compile(Module::parse(function("f")), emittable).text(Stage::emittable);
  auto edited = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return errorOf(ErrorKind::input, [&] { Program::resume(Stage::emittable, changed, options); });
  };
  EXPECT_HAS(edited("cu.kernel \"kiln_f\"", "cu.kernel \"kiln_f(){} int x\""),
             "it is a word of letters, digits and '_' that begins with 'kiln_'");
  EXPECT_HAS(edited("cu.kernel \"kiln_f\"", "cu.kernel \"system\""), "begins with 'kiln_'");
  EXPECT_HAS(edited("attributes {arguments", "attributes {header = \"/etc/passwd\", arguments"),
             "it is a file of the device library, such as row.cuh");
  EXPECT_HAS(edited("{\\22function\\22:\\22f\\22", "{\\22function\\22:\\22f\\5Cnint x;\\22"),
             "plan.function is 'f\\x0aint x;'; texts have no control characters");
  // Blanks between the parts of a plan may be ends of lines.
  std::string lines = text;
  lines.replace(lines.find("{\\22function"), 12, "{\\0A\\22function");
  EXPECT_EQ(Program::resume(Stage::emittable, lines, options).text(Stage::cuda),
            Program::resume(Stage::emittable, text, options).text(Stage::cuda));
}

TEST(Strangers, NestingIsLimited) {
  auto nested = [](const std::string& open, const std::string& inner, const std::string& close,
                   int depth) { return repeated(open, depth) + inner + repeated(close, depth); };
  const std::string attribute = "func.func private @f() attributes {a = ", type = "!a = ";
  for (int depth : {300, 20000, 300000}) {
    for (const std::string& text :
         {attribute + nested("[", "", "]", depth) + "}",
          attribute + nested("{a = ", "1", "}", depth) + "}",
          type + nested("tuple<", "f32", ">", depth), nested("(", "", "", depth),
          nested("module {\n", "", "}\n", depth),
          "func.func private @f() loc(" + nested("callsite(\"a\" at ", "\"b\"", ")", depth) + ")"})
      EXPECT_HAS(errorOf(ErrorKind::input, [&] { Module::parse(text, "deep.mlir"); }),
                 "are nested more than 200 deep");
    std::string aliases = "#a0 = [1]\n";
    for (int i = 1; i < depth; ++i)
      aliases += fmt::format("#a{} = [#a{}]\n", i, i - 1);
    EXPECT_HAS(errorOf(ErrorKind::input, [&] { Module::parse(aliases, "deep.mlir"); }),
               "deep.mlir:201:");
  }
  CompileOptions options;
  options.schedule = nested("[", "", "]", 100000);
  EXPECT_HAS(
      errorOf(ErrorKind::input, [&] { Program::compile(Module::parse(function("f")), options); }),
      "<schedule>:1:201: error: ");
  EXPECT_NO_THROW(Module::parse(attribute + nested("[", "", "]", 100) + "}"));
  EXPECT_NO_THROW(
      Module::parse(attribute + "\"" + repeated("[", 1000) + "\"} // " + repeated("(", 1000)));
  std::string arrows = "func.func private @f(";
  for (int i = 0; i < 400; ++i)
    arrows += fmt::format("{}() -> f32", i ? ", " : "");
  EXPECT_NO_THROW(Module::parse(arrows + ")"));
}

/// Arguments with the names of what the compiler makes, results with those of partial sums.
TEST(Strangers, NamesOfTheCompilersOwnAreFree) {
  for (const char* name : {"row_count", "size0", "lines", "partials", "kiln_f_partials", "between0",
                           "step_d1_64", "in0", "out1", "x_sum"})
    for (bool backward : {false, true}) {
      CompileOptions options = untilCuda();
      options.backward = backward;
      const std::string type = "tensor<?x?x64xf32>";
      const std::string text =
          fmt::format("func.func @f(%x: {0} {{kiln.name = \"{1}\"}}, %g: tensor<64xf32>) -> ({0}, "
                      "tensor<64xf32> {{kiln.name = \"{1}\"}}) {{\n"
                      "  %b = kiln.broadcast %g dims [2] like %x : tensor<64xf32>, {0} -> {0}\n"
                      "  %y = arith.mulf %x, %b : {0}\n"
                      "  %s = kiln.reduce sum %y dims [0, 1] : {0} -> tensor<64xf32>\n"
                      "  return %y, %s : {0}, tensor<64xf32>\n}}\n",
                      type, name);
      EXPECT_NO_THROW(Program::compile(Module::parse(text), options)) << name;
    }
}

/// What a text calls, or makes something of: names before ( < and ::, types before {, but for
/// members and the kernels themselves.
std::set<std::string> calledBy(const std::string& cuda) {
  std::set<std::string> names;
  const std::regex called(
      R"((?:[-(,=!<{+*/] ?|\n +|return )([A-Za-z]\w*(?=\(|<|::)|[A-Z]\w*(?=\{)))");
  for (std::sregex_iterator at(cuda.begin(), cuda.end(), called), end; at != end; ++at)
    names.insert((*at)[1]);
  return names;
}

std::string textWith(std::string function, const std::string& name, bool backward) {
  for (std::size_t at; (at = function.find("NAME")) != std::string::npos;)
    function.replace(at, 4, name);
  CompileOptions options = untilCuda();
  options.backward = backward;
  const std::string text = Program::compile(Module::parse(function), options).text(Stage::cuda);
  return text.substr(text.find("using namespace"));
}

/// Whatever family's device functions a kernel calls.
TEST(Strangers, ArgumentsAreNoNamesThatTheirKernelCalls) {
  const std::string attention =
      "func.func @f(%q: tensor<2x4x64x32xbf16> {kiln.name = \"NAME\"}, %k: tensor<2x4x64x32xbf16>, "
      "%v: tensor<2x4x64x32xbf16>, %b: tensor<1x4x64x64xbf16>) -> (tensor<2x4x64x32xbf16>, "
      "tensor<2x4x64xf32>) {\n  %o, %l = kiln.attention %q, %k, %v bias %b : "
      "(tensor<2x4x64x32xbf16>, tensor<2x4x64x32xbf16>, tensor<2x4x64x32xbf16>, "
      "tensor<1x4x64x64xbf16>) -> (tensor<2x4x64x32xbf16>, tensor<2x4x64xf32>)\n"
      "  return %o, %l : tensor<2x4x64x32xbf16>, tensor<2x4x64xf32>\n}\n";
  const std::string norm =
      "func.func @f(%x: tensor<?x95xbf16> {kiln.name = \"NAME\"}, %w: tensor<95xf32>, %b: "
      "tensor<95xf32>) -> tensor<?x95xbf16> {\n  %y, %m, %r = kiln.layer_norm %x, %w, %b {eps = "
      "1.0e-05 : f32} : (tensor<?x95xbf16>, tensor<95xf32>, tensor<95xf32>) -> (tensor<?x95xbf16>, "
      "tensor<?xf32>, tensor<?xf32>)\n  return %y : tensor<?x95xbf16>\n}\n";
  const std::string lists =
      "func.func @f(%g: tensor<?xf32> {kiln.list, kiln.name = \"NAME\"}) -> (tensor<?xf32> "
      "{kiln.list}, tensor<f32>) {\n  %s = arith.mulf %g, %g : tensor<?xf32>\n"
      "  %n = kiln.reduce sum %s dims [0] : tensor<?xf32> -> tensor<f32>\n"
      "  return %s, %n : tensor<?xf32>, tensor<f32>\n}\n";
  const std::pair<std::string, bool> functions[] = {
      {attention, false}, {attention, true}, {norm, false}, {norm, true}, {lists, false}};
  for (const auto& [function, backward] : functions) {
    const std::set<std::string> called = calledBy(textWith(function, "nobodys", backward));
    EXPECT_GT(called.size(), 10U);
    for (const std::string& name : called) {
      const std::string text = textWith(function, name, backward);
      EXPECT_FALSE(std::regex_search(text, std::regex("[*&P] " + name + "[,)]"))) << name;
      EXPECT_TRUE(calledBy(text).contains(name)) << name;
    }
  }
}

TEST(Strangers, ArgumentsAreNoKeywordsAndNoMacros) {
  for (const char* name : {"wchar_t", "char8_t", "static_cast", "and_eq", "__attribute__", "_x",
                           "KILN_DEVICE", "divide_by", "fast_sine", "thread_local"}) {
    const std::string text = compiled(function("f", name)).text(Stage::cuda);
    EXPECT_FALSE(std::regex_search(text, std::regex(fmt::format("float\\* {}\\b", name)))) << name;
  }
}

} // namespace
