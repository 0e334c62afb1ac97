// kiln::compile: captures by kinds of arguments, and what is told about them.
#include "kiln/compile.h"

#include "runtime/Backends.h"
#include "runtime/Plain.h"
#include "runtime/Table.h"
#include "runtime/compile/Check.h"
#include "runtime/compile/Program.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/module.h>

namespace kiln::compiled {

namespace {

constexpr unsigned kMaxCaptures = 16;

constexpr char kSparse[] = "tensors that are not strided";
constexpr char kGraph[] = "a graph was being captured, and nothing had been compiled";
constexpr char kProfiled[] = "the thread was being profiled, and nothing had been compiled";
constexpr char kMany[] = "16 kinds of arguments had been captured";
constexpr char kDiffers[] = "a value that it reads differs from call to call";
constexpr char kRead[] = "a value that the function reads was another one";

std::string labelOf(const Tensors& arguments) {
  std::string text;
  for (const at::Tensor& argument : arguments)
    text += fmt::format("{}{} [{}]", text.empty() ? "" : ", ",
                        c10::toString(argument.scalar_type()), fmt::join(argument.sizes(), ", "));
  return text + (at::GradMode::is_enabled() ? "" : ", no gradients");
}

} // namespace

struct Key {
  std::vector<std::int64_t> words;
  std::uint64_t hash() const { return runtime::hashOf(words); }
  friend bool operator==(const Key&, const Key&) = default;
};

/// What has become of a kind of arguments.
struct Kind {
  Key key;
  std::string label;
  std::string refusal; // why its function runs; written before `isRefused`
  std::atomic<bool> isRefused = false;
  std::atomic<Program*> program = nullptr;
  std::atomic<std::uint64_t> used = 0, refused = 0;
};

struct Counted {
  const char* why;
  std::atomic<std::uint64_t> calls = 0;
};

class State {
 public:
  State(CompiledFunction::Function f, CaptureOptions options);
  Tensors call(const Tensors& arguments);
  Tensors check(const Tensors& arguments) const;
  std::vector<const Kind*> kinds() const { return known.all(); }
  std::vector<std::pair<std::string, std::uint64_t>> refusals() const;

  const CaptureOptions options;

 private:
  Key keyOf(const Tensors& arguments) const;
  const char* whyNot(const Tensors& arguments) const;
  Tensors runPlainly(const char* why, const Tensors& arguments);
  Tensors capture(Kind& kind, const Tensors& arguments);
  Tensors refuse(Kind& kind, std::string why, Tensors results);
  std::string whyWrong(const Program& program, const Tensors& arguments, const Tensors& expected,
                       const Tensors& results, RandomState& random) const;

  const CompiledFunction::Function function;
  std::vector<std::shared_ptr<torch::nn::Module>> modules; // and those below
  runtime::Table<Key, Kind> known;
  std::mutex mutex; // of captures
  std::vector<std::pair<const Kind*, std::unique_ptr<Program>>> programs;
  std::atomic<unsigned> captures = 0;
  std::array<Counted, 7> plain{{{runtime::kWrapped},
                                {runtime::kTangent},
                                {kSparse},
                                {kGraph},
                                {kProfiled},
                                {kMany},
                                {kRead}}};
};

State::State(CompiledFunction::Function f, CaptureOptions given)
    : options(std::move(given)), function(std::move(f)) {
  if (!function)
    throw Error(ErrorKind::input, "compile: the function is empty");
  for (const auto& module : options.modules) {
    if (!module)
      throw Error(ErrorKind::input, "compile: a module is null");
    modules.push_back(module); // which may be owned by nobody that could be asked
    for (const auto& each : module->modules(/*include_self=*/false))
      modules.push_back(each);
  }
}

Key State::keyOf(const Tensors& arguments) const {
  Key key;
  auto& words = key.words;
  for (const at::Tensor& argument : arguments) {
    words.push_back(static_cast<std::int64_t>(argument.scalar_type()) |
                    static_cast<std::int64_t>(argument.device().type()) << 8 |
                    (argument.device().index() + 1) << 16 | argument.requires_grad() << 30 |
                    argument.dim() << 32);
    words.insert(words.end(), argument.sizes().begin(), argument.sizes().end());
    words.insert(words.end(), argument.strides().begin(), argument.strides().end());
  }
  const auto local = c10::impl::tls_local_dispatch_key_set();
  words.push_back(static_cast<std::int64_t>(local.included_.raw_repr()));
  words.push_back(static_cast<std::int64_t>(local.excluded_.raw_repr()));
  words.push_back(at::GradMode::is_enabled() | c10::InferenceMode::is_enabled() << 1 |
                  static_cast<int>(at::autocast::get_autocast_dtype(at::kCPU)) << 8 |
                  static_cast<int>(at::autocast::get_autocast_dtype(at::kCUDA)) << 16);
  for (const auto& module : modules)
    words.push_back(module->is_training());
  return key;
}

/// Why the function runs whatever has been captured: one of the reasons above, or null.
const char* State::whyNot(const Tensors& arguments) const {
  bool isOnGpu = false;
  for (const at::Tensor& argument : arguments) {
    if (const char* why = runtime::whyNotPlain(argument))
      return why;
    if (argument.layout() != at::kStrided)
      return kSparse;
    isOnGpu |= argument.is_cuda();
  }
  return isOnGpu && runtime::gpuBackend().isCapturing() ? kGraph : nullptr;
}

Tensors State::check(const Tensors& arguments) const {
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (!arguments[i].defined())
      throw Error(ErrorKind::input,
                  fmt::format("{}: argument {} is undefined; give a tensor", options.name, i));
  return arguments;
}

Tensors State::runPlainly(const char* why, const Tensors& arguments) {
  for (Counted& one : plain)
    if (one.why == why)
      one.calls.fetch_add(1, std::memory_order_relaxed);
  return function(arguments);
}

Tensors State::call(const Tensors& arguments) {
  if (isRecording())
    return function(arguments); // another capture sees what it does
  check(arguments);
  const char* why = whyNot(arguments);
  if (why && why != kGraph)
    return runPlainly(why, arguments);
  const Key key = keyOf(arguments);
  Kind* kind = known.find(key);
  if (kind) {
    if (kind->isRefused.load(std::memory_order_acquire)) {
      kind->refused.fetch_add(1, std::memory_order_relaxed);
      return function(arguments);
    }
    const Program* program = kind->program.load(std::memory_order_acquire);
    if (program && program->fits()) {
      if (auto results = program->run(arguments)) {
        kind->used.fetch_add(1, std::memory_order_relaxed);
        return std::move(*results);
      }
      return runPlainly(kRead, arguments);
    }
  }
  if (why)
    return runPlainly(why, arguments);
  if (!canRecord())
    return runPlainly(kProfiled, arguments);
  if (captures.load(std::memory_order_relaxed) >= kMaxCaptures)
    return runPlainly(kMany, arguments);
  return capture(known.findOrMake(key,
                                  [&] {
                                    auto made = std::make_unique<Kind>();
                                    made->key = key;
                                    made->label = labelOf(arguments);
                                    return made;
                                  }),
                 arguments);
}

Tensors State::refuse(Kind& kind, std::string why, Tensors results) {
  kind.refusal = std::move(why);
  kind.isRefused.store(true, std::memory_order_release);
  kind.refused.fetch_add(1, std::memory_order_relaxed);
  return results;
}

/// What differs from the function, or nothing. Attentions with a dropout draw other numbers than
/// it: the program without them is compared with the function, and then, without the dropouts, with
/// itself where they are attentions.
std::string State::whyWrong(const Program& program, const Tensors& arguments,
                            const Tensors& expected, const Tensors& results,
                            RandomState& random) const {
  Tensors leaves = program.captured();
  leaves.insert(leaves.end(), arguments.begin(), arguments.end());
  std::erase_if(leaves, [](const at::Tensor& leaf) { return !leaf.requires_grad(); });
  std::vector<unsigned> drawing;
  for (const Attention& one : program.plan().attentions)
    if (one.dropout)
      drawing.push_back(*one.dropout);
  if (drawing.empty())
    return whatDiffers(program.tape(), expected, results, leaves);
  const auto resultsOf = [&](Tape tape, Dropouts dropouts) {
    auto settled =
        Program(std::move(tape), options, dropouts).settle(arguments, [&] { random.restore(); });
    if (!settled)
      throw Error(ErrorKind::input, kDiffers);
    return std::move(*settled);
  };
  const Tensors written = resultsOf(program.tape(), Dropouts::left);
  if (std::string why = whatDiffers(program.tape(), expected, written, leaves); !why.empty())
    return why;
  Tape calm = program.tape();
  for (unsigned i : drawing)
    calm.ops[i].arguments[1].constant = 0.0;
  return whatDiffers(calm, resultsOf(calm, Dropouts::left), resultsOf(calm, Dropouts::taken),
                     leaves);
}

/// Runs the function, and what was made of it beside it.
Tensors State::capture(Kind& kind, const Tensors& arguments) {
  std::unique_lock held(mutex);
  for (const auto& [its, program] : programs)
    if (its == &kind && program->fits())
      kind.program = program.get(); // another thread's, or of when captured tensors were like this
  if (const Program* now = kind.program; kind.isRefused || (now && now->fits())) {
    held.unlock();
    return call(arguments);
  }
  captures.fetch_add(1, std::memory_order_relaxed);
  RandomState random(arguments);
  Tensors expected;
  Tape tape = record(function, arguments, expected);
  if (!tape.refusal.empty())
    return refuse(kind, tape.refusal, std::move(expected));
  auto program = std::make_unique<Program>(std::move(tape), options);
  std::optional<Tensors> results;
  std::string why;
  RandomState after(arguments);
  try {
    results = program->settle(arguments, [&] { random.restore(); });
    if (!results)
      why = kDiffers;
    else if (options.check)
      why = whyWrong(*program, arguments, expected, *results, random);
  } catch (const std::exception& error) {
    why = error.what();
  }
  after.restore();
  if (!why.empty())
    return refuse(kind, "the program does not do as the function: " + why.substr(0, why.find('\n')),
                  std::move(expected));
  kind.used.fetch_add(1, std::memory_order_relaxed);
  kind.program.store(program.get(), std::memory_order_release);
  programs.emplace_back(&kind, std::move(program));
  return std::move(*results);
}

std::vector<std::pair<std::string, std::uint64_t>> State::refusals() const {
  std::vector<std::pair<std::string, std::uint64_t>> all;
  for (const Kind* kind : known.all())
    if (kind->isRefused.load(std::memory_order_acquire))
      all.emplace_back(kind->refusal, kind->refused.load());
  for (const Counted& one : plain)
    if (const std::uint64_t calls = one.calls)
      all.emplace_back(one.why, calls);
  return all;
}

namespace {

std::vector<CompiledRegion> regionsOf(const Program& program) {
  std::vector<CompiledRegion> regions;
  for (const Attention& one : program.plan().attentions)
    regions.push_back({one.text(program.tape()), true, "", one.bytesSaved(program.tape()), true});
  for (const CompiledRegion& left : program.plan().attentionsLeft)
    regions.push_back(left);
  for (const Region& region : program.plan().regions)
    regions.push_back(
        {region.text(program.tape()), region.function != nullptr, region.why, region.bytesSaved});
  return regions;
}

std::string textOf(const Kind& kind) {
  std::string text = fmt::format("{}: {} calls by the program, {} by the function\n", kind.label,
                                 kind.used.load(), kind.refused.load());
  if (kind.isRefused.load(std::memory_order_acquire))
    return text + fmt::format("  not compiled: {}\n", kind.refusal);
  const Program* program = kind.program.load(std::memory_order_acquire);
  if (!program)
    return text;
  for (const CompiledRegion& region : regionsOf(*program))
    text += region.used
                ? fmt::format("  {}{}; saves {} bytes a call\n",
                              region.isAttention ? "" : "kernel: ", region.ops, region.bytesSaved)
                : fmt::format("  no {}{}: {}\n", region.isAttention ? "" : "kernel: ", region.ops,
                              region.why);
  std::map<std::string, unsigned> others;
  for (const Step& step : program->plan().steps)
    if (step.op >= 0) {
      const auto i = static_cast<std::size_t>(step.op);
      ++others[fmt::format("{}: {}", program->tape().ops[i].name(), program->plan().whyNot[i])];
    }
  for (const auto& [what, count] : others)
    text += fmt::format("  ATen: {} x {}\n", count, what);
  return text;
}

} // namespace

} // namespace kiln::compiled

namespace kiln {

CompiledFunction::CompiledFunction(Function f, const Tensors& sample, const CaptureOptions& options)
    : state_(std::make_shared<compiled::State>(std::move(f), options)) {
  state_->call(sample);
}

CompiledFunction::CompiledFunction(Function f, const CaptureOptions& options)
    : state_(std::make_shared<compiled::State>(std::move(f), options)) {}

CompiledFunction::Tensors CompiledFunction::operator()(const Tensors& arguments) const {
  return state_->call(arguments);
}

std::vector<CompiledRegion> CompiledFunction::regions() const {
  std::vector<CompiledRegion> all;
  for (const compiled::Kind* kind : state_->kinds())
    if (const auto* program = kind->program.load(std::memory_order_acquire))
      for (CompiledRegion& region : compiled::regionsOf(*program))
        all.push_back(std::move(region));
  return all;
}

std::vector<std::pair<std::string, std::uint64_t>> CompiledFunction::refusals() const {
  return state_->refusals();
}

std::string CompiledFunction::report() const {
  std::string text;
  for (const compiled::Kind* kind : state_->kinds())
    text += fmt::format("{} {}", state_->options.name, compiled::textOf(*kind));
  for (const auto& [why, calls] : state_->refusals())
    text += fmt::format("{} calls by the function: {}\n", calls, why);
  return text;
}

} // namespace kiln
