// See Check.h.
#include "test/random/Check.h"

#include "codegen/program/Compare.h"
#include "kiln/plan.h"
#include "test/numerics/Chain.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <random>
#include <sys/resource.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace kiln::test {
namespace {

using ir::Tensor64;

/// Whether a thread adds up so many elements one after another that rounding exceeds what sums of
/// rows are allowed: such schedules compile, and no tuner takes them.
bool addsLongSums(const std::string& schedule, std::int64_t width) {
  constexpr std::int64_t most = 256;
  const std::size_t at = schedule.find("lanes = ");
  return at != std::string::npos && width > most * std::stoll(schedule.substr(at + 8));
}

/// A schedule for each kernel of the function, of those that fit and are not last by the model.
std::string drawSchedules(const Module& module, const CompileOptions& options, const Case& made,
                          std::int64_t width, std::mt19937_64& random) {
  constexpr int most = 2000;
  std::string text;
  for (const KernelPlan& kernel : plan(module, options, {.sizes = made.sizes, .keep = most})) {
    if (kernel.best.empty())
      continue;
    const std::string& schedule = kernel.best[random() % kernel.best.size()].schedule;
    if (!addsLongSums(schedule, width))
      text += fmt::format("{}kiln_{} = {}", text.empty() ? "{" : ", ", kernel.name, schedule);
  }
  return text.empty() ? text : text + "}";
}

/// Numbers of the inputs, in their tensors too.
std::vector<Tensor64> write(std::vector<Storage>& inputs, const std::vector<TensorInfo>& infos,
                            const Case& numericCase, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Tensor64> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].write(randomValues(infos[i], inputs[i].sizes(), numericCase, false, random));
    values.push_back(inputs[i].read());
  }
  return values;
}

std::string compare(const Chain& chain, std::vector<Storage>& first, std::vector<Storage>& second,
                    program::Expected& expected) {
  std::string problems;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const TensorInfo& info = chain.results[i];
    const OutputCheck check = program::compare(info, first[i].read(), expected, i);
    if (!check.passed)
      problems += fmt::format("{}: {:.9g} instead of {:.9g}, {:.3g} allowed\n", info.name,
                              check.result, check.reference, check.allowed);
    if (!first[i].hasBitsOf(second[i]))
      problems += info.name + ": a second run gave other bits\n";
    if (!first[i].isPoisonAround())
      problems += info.name + ": written outside\n";
  }
  return problems;
}

/// Of these inputs; `disagrees`: everything went well but for numbers that differ from fp64's.
std::string tryInputs(const Chain& chain, const Case& numericCase, std::uint64_t seed,
                      bool& disagrees) {
  std::vector<Storage> inputs = chain.storages(chain.inputs);
  const std::vector<Tensor64> values = write(inputs, chain.inputs, numericCase, seed);
  std::vector<Storage> first = chain.run(inputs), second = chain.run(inputs);
  Parsed parsed(numericCase.text);
  mlir::func::FuncOp computed = parsed.whatIsComputed(numericCase);
  const std::string name = computed.getName().str();
  program::Expected expected =
      program::expect(Module::parse(parsed.text()), name, values, chain.results);
  const std::string problems = compare(chain, first, second, expected);
  disagrees = problems.find("instead of") != std::string::npos &&
              problems.find("bits") == std::string::npos &&
              problems.find("outside") == std::string::npos;
  return problems;
}

template <class Drawn> std::string problemsHere(const Drawn& function, Where where) {
  try {
    return problemsOf(caseOf(function), where, function.seed);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::unavailable)
      throw;
    // An assembler may need more than a schedule promised, which is said, and no default's fault.
    if (error.kind() == ErrorKind::infeasible && function.schedules != 0 && where == Where::gpu) {
      Drawn simpler = function;
      simpler.schedules = 0;
      return problemsHere(simpler, where);
    }
    return error.what();
  }
}

/// What the child says, and how it ended if that was too early: a crash, or a minute of work
/// without end, which takes longer where others work too; or a quarter of an hour asleep.
std::string inAProcess(const std::function<std::string()>& body) {
  int ends[2];
  if (::pipe(ends) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit minute{60, 60};
    ::setrlimit(RLIMIT_CPU, &minute);
    ::alarm(900);
    std::string said;
    try {
      said = "." + body();
    } catch (const Error& error) {
      said = std::string("!") + error.what();
    }
    const bool isWritten = ::write(ends[1], said.data(), said.size()) == ssize_t(said.size());
    ::_exit(isWritten ? 0 : 1);
  }
  ::close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t count; (count = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<std::size_t>(count));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status))
    return fmt::format("ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  if (said.empty() || WEXITSTATUS(status) != 0)
    return fmt::format("ended with status {}", WEXITSTATUS(status));
  if (said[0] == '!')
    throw Error(ErrorKind::unavailable, said.substr(1));
  return said.substr(1);
}

} // namespace

/// `width`: of the rows that it adds up; `schedules`: 0: the default ones.
static Case withSchedules(Case made, std::int64_t width, std::uint64_t schedules) {
  if (schedules == 0)
    return made;
  std::mt19937_64 random(schedules);
  CompileOptions options = optionsOf(made, Stage::fused);
  options.backward = false;
  if (!made.backward) {
    made.schedule = drawSchedules(Module::parse(made.text), options, made, width, random);
    return made;
  }
  const Functions functions = functionsOf(made);
  options.function = functions.names[0];
  made.schedule = drawSchedules(functions.module, options, made, width, random);
  options.function = functions.names[1];
  made.scheduleOfBackward = drawSchedules(functions.module, options, made, width, random);
  if (made.scheduleOfBackward.empty())
    made.schedule.clear(); // it would be for both
  return made;
}

Case caseOf(const Function& function) {
  Case made;
  made.name = fmt::format("random_{}", function.seed);
  made.text = textOf(function);
  if (made.text.find('?') != std::string::npos) // what only columns give has no rows
    made.sizes = {function.rows};
  made.backward = made.chained = function.backward;
  return withSchedules(std::move(made), function.width, function.schedules);
}

Case caseOf(const Attention& attention) {
  return withSchedules(withoutSchedules(attention), attention.valueWidth, attention.schedules);
}

/// Rounding may turn over single comparisons, and noise may happen to move too little: a function
/// that is wrong is wrong for the third inputs too.
std::string problemsOf(const Case& numericCase, Where where, std::uint64_t seed) {
  const Chain chain(numericCase, where);
  std::string problems;
  for (std::uint64_t attempt = 0; attempt < 3; ++attempt) {
    bool disagrees = false;
    problems = tryInputs(chain, numericCase, seed + attempt, disagrees);
    if (!disagrees)
      break;
  }
  return problems;
}

template <class Drawn> static std::string problemsOfDrawn(const Drawn& drawn, Where where) {
  return where == Where::gpu ? problemsHere(drawn, where)
                             : inAProcess([&] { return problemsHere(drawn, where); });
}
std::string problemsOf(const Function& function, Where where) {
  return problemsOfDrawn(function, where);
}
std::string problemsOf(const Attention& attention, Where where) {
  return problemsOfDrawn(attention, where);
}

} // namespace kiln::test
