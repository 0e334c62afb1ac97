// kiln::enable: registers the routers once a place and switches them by policy afterwards, since
// the dispatcher's table is read without a lock.
#include "runtime/Backends.h"
#include "runtime/Compiler.h"
#include "runtime/Log.h"
#include "runtime/Muted.h"
#include "runtime/Route.h"
#include "runtime/Site.h"
#include "runtime/WrittenNorm.h"
#include "runtime/products/Routes.h"

#include <fmt/ranges.h>
#include <torch/library.h>

namespace kiln {

namespace runtime {

Backend& backendOf(Place place) {
  return place == Place::gpu ? gpuBackend() : hostBackend();
}

namespace {

struct Installed {
  std::mutex mutex;
  std::atomic<std::deque<Site>*> sites[2] = {};
};
Installed& installed() {
  static auto* one = new Installed;
  return *one;
}

/// ATen's kernel of an op, or whoever's has replaced it; asked before ours is registered.
void capture(Site& site) {
  const std::string_view name = site.route.name;
  const std::size_t dot = std::min(name.find('.'), name.size()); // an overload's name follows
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
      fmt::format("aten::{}", name.substr(0, dot)).c_str(),
      std::string(name.substr(std::min(dot + 1, name.size()))).c_str());
  const auto key = site.key();
  if (!op.hasComputedKernelForDispatchKey(key) ||
      (site.route.layer == Layer::autocast && !op.hasKernelForDispatchKey(key)))
    return;
  site.previous.emplace(op.getComputedKernelForDispatchKey(key));
  const std::string& origin = site.previous->debug();
  for (const char* file : {"RegisterCUDA", "RegisterCPU", "RegisterCompositeImplicitAutograd"})
    site.previousIsATen |= origin.find(file) != std::string::npos;
}

std::deque<Site>* install(Place place) {
  Backend& backend = backendOf(place);
  auto* sites = new std::deque<Site>; // for good: the dispatcher calls into it
  auto* library =
      new torch::Library(torch::Library::IMPL, "aten", std::nullopt, __FILE__, __LINE__);
  const Muted muted;
  for (const Route* route : routes()) {
    Site& site = sites->emplace_back(*route, backend);
    if (route->layer != Layer::gradient) // else no op of ATen's
      capture(site);
    if (route->layer == Layer::autocast && !site.previous)
      continue; // autocast lets it pass: on CPUs norms stay in the type of their input
    route->install(*library, site);
    if (site.previous && !site.previousIsATen && route->layer != Layer::autocast)
      log("{}: the kernel below is not called directly: {}", route->name, site.previous->debug());
  }
  for (const Route* route : observers()) {
    Site& site = sites->emplace_back(*route, backend);
    capture(site);
    route->install(*library, site);
  }
  return sites;
}

/// The routes that a list of ops names; see Options::ops.
std::uint64_t selected(std::string_view ops) {
  const std::uint64_t all = (std::uint64_t(1) << routes().size()) - 1;
  std::uint64_t chosen = ops.empty() || ops[0] == '+' || ops[0] == '-' ? all : 0;
  while (!ops.empty()) {
    const std::size_t end = std::min(ops.find(','), ops.size());
    std::string_view word = ops.substr(0, end);
    ops.remove_prefix(std::min(end + 1, ops.size()));
    const bool removes = word.starts_with('-');
    if (removes || word.starts_with('+'))
      word.remove_prefix(1);
    std::uint64_t named = 0;
    std::vector<std::string_view> known;
    for (const Route* route : routes()) {
      known.push_back(route->name);
      if (word == route->name || word == route->family)
        named |= std::uint64_t(1) << route->index;
    }
    if (named == 0)
      throw Error(ErrorKind::input, fmt::format("op '{}' is none that Kiln routes: {}, or a family "
                                                "such as layer_norm; write -gelu to leave one out",
                                                word, fmt::join(known, ", ")));
    chosen = removes ? chosen & ~named : chosen | named;
  }
  return chosen;
}

} // namespace

std::deque<Site>* installedSites(Place place) {
  return installed().sites[static_cast<int>(place)].load(std::memory_order_acquire);
}

std::deque<Site>& sitesOf(Place place) {
  Installed& all = installed();
  std::lock_guard held(all.mutex);
  auto& sites = all.sites[static_cast<int>(place)];
  if (!sites)
    sites.store(install(place), std::memory_order_release);
  return *sites;
}

Policy scopedPolicy(const Options& options) {
  Policy policy{
      .mode = options.mode, .strict = options.strict, .formulaBytes = options.formulaBytes};
  if (options.mode != Mode::off)
    policy.ops.fill(selected(options.ops));
  return policy;
}

Policy policyOf(const Options& options) {
  Policy policy = scopedPolicy(options);
  policy.ops[options.place == Place::gpu ? 1 : 0] = 0;
  return policy;
}

} // namespace runtime

void enable(const Options& options) {
  using namespace runtime;
  const Policy policy = policyOf(options); // refuses before anything has changed
  setLog(options.log);
  configureProducts(options);
  configureCompiler(options);
  sitesOf(options.place);
  setPolicy(policy);
  log("on, {} routed ops", routes().size());
}

void disable() {
  runtime::setPolicy({});
}

void wait() {
  runtime::waitForAll();
}

void recordShapes(const std::filesystem::path& workload) {
  runtime::recordMissing(workload);
}

std::string freeze() {
  return runtime::freezeChoices();
}

} // namespace kiln
