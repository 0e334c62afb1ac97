// kiln::Program: runs the stages in order, each from the text of the one before.

#include "codegen/backend/Fail.h"
#include "codegen/program/Names.h"
#include "codegen/program/State.h"
#include "kiln/files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <optional>

using namespace mlir;

namespace kiln {

using program::Session;

static constexpr std::pair<Stage, std::string_view> kStages[] = {
    {Stage::module, "module"},       {Stage::fused, "fused"}, {Stage::scheduled, "scheduled"},
    {Stage::emittable, "emittable"}, {Stage::cuda, "cuda"},   {Stage::cubin, "cubin"}};

std::string_view name(Stage stage) {
  return kStages[static_cast<int>(stage)].second;
}
Stage parseStage(std::string_view text) {
  std::string known;
  for (auto [stage, label] : kStages) {
    if (label == text)
      return stage;
    known += (known.empty() ? "" : ", ") + std::string(label);
  }
  fail(ErrorKind::input, "unknown stage '{}'; known are {}", text, known);
}

namespace {

std::string& textAt(Program::State& state, Stage stage) {
  return state.texts[static_cast<int>(stage)];
}

/// The passes that lead to a stage from the one before it.
std::vector<std::unique_ptr<Pass>> passesTo(Stage stage, const Program::State& state) {
  std::vector<std::unique_ptr<Pass>> list;
  if (stage == Stage::fused) {
    list.push_back(passes::createCanonicalize());
    passes::FuseOptions fuse;
    fuse.arch = state.options.arch;
    if (state.lessons.most > 0)
      fuse.most = state.lessons.most;
    list.push_back(passes::createFuse(fuse));
  } else if (stage == Stage::scheduled) {
    passes::ScheduleOptions schedule;
    schedule.arch = state.options.arch;
    schedule.schedule = state.options.schedule;
    schedule.sizes = state.options.sizes;
    std::vector<std::string> spilled;
    for (const auto& [kernel, registers] : state.lessons.spilled)
      spilled.push_back(fmt::format("{}={}", kernel, registers));
    schedule.spilled = spilled;
    list.push_back(passes::createSchedule(schedule));
  } else if (stage == Stage::emittable) {
    passes::VerifyScheduleOptions verify;
    verify.arch = state.options.arch;
    passes::LowerOptions lower;
    lower.function = state.function;
    list.push_back(passes::createVerifySchedule(verify));
    list.push_back(passes::createLower(lower));
    list.push_back(passes::createPlace());
    list.push_back(passes::createPrepare());
  }
  return list;
}

/// Keeps only the function to compile, or its backward.
void select(ModuleOp module, Session& session, Program::State& state) {
  auto found = passes::findFunction(module, state.options.function);
  if (failed(found))
    session.fail("finding the function");
  std::string name = found->getName().str();
  if (state.options.backward) {
    passes::DifferentiateOptions options;
    options.function = name;
    options.older = state.options.readAhead;
    std::vector<std::unique_ptr<Pass>> list;
    list.push_back(passes::createCanonicalize());
    list.push_back(passes::createDifferentiate(options));
    session.run(module, std::move(list));
  }
  state.function = program::compiledName(name, state.options.backward);
  for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (function.getName() != state.function)
      function.erase();
}

void saveStage(const Program::State& state, Stage stage) {
  static constexpr const char* files[] = {"0-module.mlir",    "1-fused.mlir", "2-scheduled.mlir",
                                          "3-emittable.mlir", "4-kernel.cu",  "5-kernel.cubin"};
  const auto& folder = state.options.saveTemps;
  if (folder.empty())
    return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    fail(ErrorKind::io, "cannot make the folder '{}': {}", folder.string(), error.message());
  auto path = folder / files[static_cast<int>(stage)];
  if (stage == Stage::cubin)
    writeFile(path, std::span<const std::byte>(state.cubin));
  else
    writeFile(path, state.texts[static_cast<int>(stage)]);
}

std::string usageText(const Program::State& state) {
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (const KernelInfo& kernel : state.kernels)
    kernels.push_back({{"name", kernel.name},
                       {"schedule", kernel.schedule},
                       {"threads", kernel.threads},
                       {"promised_blocks", kernel.promisedBlocks},
                       {"resident_blocks", kernel.residentBlocks},
                       {"programmatic", kernel.programmatic},
                       {"registers", kernel.usage.registers},
                       {"shared_bytes", kernel.usage.sharedBytes},
                       {"stack_bytes", kernel.usage.stackBytes},
                       {"spill_store_bytes", kernel.usage.spillStoreBytes},
                       {"spill_load_bytes", kernel.usage.spillLoadBytes},
                       {"barriers", kernel.usage.barriers},
                       {"code_bytes", kernel.usage.codeBytes}});
  nlohmann::ordered_json json = {{"arch", state.options.arch}, {"kernels", kernels}};
  return json.dump(2) + "\n";
}

/// From the text of `stage`, which is in the state, to the end.
void finish(Program::State& state, Stage stage, Session& session, OwningOpRef<ModuleOp> module) {
  findTarget(state.options.arch);
  program::checkNesting(state.options.schedule, "<schedule>");
  saveStage(state, stage);
  auto done = [&](Stage reached) { return reached >= state.options.until; };
  while (stage < Stage::emittable) {
    if (done(stage))
      return;
    stage = static_cast<Stage>(static_cast<int>(stage) + 1);
    session.run(*module, passesTo(stage, state));
    textAt(state, stage) = program::print(*module);
    saveStage(state, stage);
  }
  state.remarks = session.takeRemarks();
  if (stage == Stage::emittable) {
    if (done(stage))
      return;
    FailureOr<std::string> cuda = program::emitCuda(*module, state.function);
    if (failed(cuda))
      session.fail("printing");
    textAt(state, Stage::cuda) = std::move(*cuda);
    saveStage(state, Stage::cuda);
  }
  state.plan = launchPlanOfCuda(textAt(state, Stage::cuda));
  state.function = state.plan.function;
  if (done(Stage::cuda))
    return;
  program::assemble(state);
  saveStage(state, Stage::cubin);
  if (!state.options.saveTemps.empty())
    writeFile(state.options.saveTemps / "6-usage.json", usageText(state));
}

} // namespace

/// One attempt.
static std::shared_ptr<Program::State>
compileOnce(const Module& module, const CompileOptions& options, const program::Lessons& lessons) {
  auto state = std::make_shared<Program::State>();
  state->options = options;
  state->lessons = lessons;
  Session session;
  auto parsed = session.parse(module.text(), module.state().name);
  select(*parsed, session, *state);
  textAt(*state, Stage::module) = program::print(*parsed);
  finish(*state, Stage::module, session, std::move(parsed));
  return state;
}

/// The largest limit of operations that parts a function into other kernels than `most`, 0 for the
/// usual one; 0: there is none.
static int smallerKernels(const Module& module, CompileOptions options, int most) {
  options.until = Stage::fused;
  options.saveTemps.clear();
  auto fused = [&](int limit) {
    return textAt(*compileOnce(module, options, {{}, limit}), Stage::fused);
  };
  const std::string now = fused(most);
  constexpr int kFirst = 160;
  for (int limit = most > 0 ? most / 2 : kFirst; limit > 0; limit /= 2)
    if (fused(limit) != now)
      return limit;
  return 0;
}

namespace {

/// The attempt that spilled least of all that were made for a function.
class LastResort {
 public:
  void offer(const program::Lessons& lessons, const program::BrokenPromise& broken) {
    if (!broken.launchable || (found && broken.spillBytes >= spillBytes))
      return;
    found = lessons;
    found->lastResort = true;
    spillBytes = broken.spillBytes;
  }
  /// Compiles it. Rethrows `failure` where no attempt can be launched.
  std::shared_ptr<Program::State> take(const Module& module, const CompileOptions& options,
                                       std::exception_ptr failure) const {
    if (!found)
      std::rethrow_exception(failure);
    auto state = compileOnce(module, options, *found);
    state->remarks.push_back(
        fmt::format("every schedule spills registers to memory; the one that spills least is "
                    "taken ({} bytes a thread stored and loaded): the kernel is right, and slower "
                    "than its work needs",
                    spillBytes));
    return state;
  }

 private:
  std::optional<program::Lessons> found;
  std::int64_t spillBytes = 0;
};

} // namespace

/// Schedules that Kiln chooses may turn out to spill: then the best with more registers is taken,
/// and a remark says so. Where all spill the function is parted into smaller kernels, and where
/// that does not help either the schedule that spills least is taken. A schedule that the user
/// gave is refused instead.
static std::shared_ptr<Program::State> compileAny(const Module& module,
                                                  const CompileOptions& options,
                                                  std::vector<std::string>& refusals) {
  program::Lessons lessons;
  LastResort resort;
  for (int attempt = 1;; ++attempt) {
    std::exception_ptr failure;
    try {
      return compileOnce(module, options, lessons);
    } catch (const program::BrokenPromise& broken) {
      if (!options.schedule.empty())
        throw;
      resort.offer(lessons, broken);
      for (const auto& [kernel, registers] : broken.registers)
        lessons.spilled.emplace(kernel, registers);
      refusals.push_back(fmt::format("choice {} of the cost model: {}", attempt, broken.what()));
      if (attempt < broken.attempts)
        continue;
      failure = std::current_exception();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::infeasible || lessons.spilled.empty())
        throw;
      failure = std::current_exception();
    }
    const int most = smallerKernels(module, options, lessons.most);
    if (most == 0)
      return resort.take(module, options, failure);
    refusals.push_back(
        fmt::format("no choice keeps its values in registers: the function is parted "
                    "into kernels of up to {} operations",
                    most));
    lessons = {{}, most};
    attempt = 0;
  }
}

Program Program::compile(const Module& module, const CompileOptions& options) {
  std::vector<std::string> refusals;
  auto state = compileAny(module, options, refusals);
  state->remarks.insert(state->remarks.end(), refusals.begin(), refusals.end());
  Program result;
  result.state_ = state;
  return result;
}

Program Program::resume(Stage stage, std::string_view text, const CompileOptions& options) {
  if (stage == Stage::module)
    return compile(Module::parse(text), options);
  if (stage == Stage::cubin)
    fail(ErrorKind::input, "nothing follows the stage 'cubin'; resume from 'cuda' or before");
  auto state = std::make_shared<State>();
  state->options = options;
  textAt(*state, stage) = text;
  Session session;
  OwningOpRef<ModuleOp> parsed;
  if (stage != Stage::cuda) {
    parsed = session.parse(text, fmt::format("<{}>", name(stage)));
    if (stage != Stage::emittable) {
      auto found = passes::findFunction(*parsed, options.function);
      if (failed(found))
        session.fail("finding the function");
      state->function = found->getName().str();
    } else if (auto launch = (*parsed)->getAttrOfType<StringAttr>(passes::kLaunchAttr)) {
      state->function = parseLaunchPlan(launch.getValue()).function;
    }
  }
  finish(*state, stage, session, std::move(parsed));
  Program result;
  result.state_ = state;
  return result;
}

const Program::State& Program::state() const {
  return held(state_, "Program", "Program::compile");
}
const std::string& Program::text(Stage stage) const {
  if (stage == Stage::cubin)
    fail(ErrorKind::input, "the stage 'cubin' is not text; use cubin()");
  return state().texts[static_cast<int>(stage)];
}
std::span<const std::byte> Program::cubin() const {
  return state().cubin;
}
std::string Program::usageJson() const {
  return usageText(state());
}
const std::string& Program::arch() const {
  return state().options.arch;
}
const std::vector<std::string>& Program::remarks() const {
  return state().remarks;
}
const std::vector<KernelInfo>& Program::kernels() const {
  return state().kernels;
}
std::size_t Program::launches() const {
  return state().plan.kernels.size();
}
const std::vector<TensorInfo>& Program::inputs() const {
  return state().plan.inputs;
}
const std::vector<TensorInfo>& Program::outputs() const {
  return state().plan.outputs;
}
const ListsInfo& Program::lists() const {
  return state().plan.lists;
}

} // namespace kiln
