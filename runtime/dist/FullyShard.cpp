// See kiln/dist/fully_shard.h.
#include "kiln/dist/fully_shard.h"

#include "runtime/dist/Agree.h"
#include "runtime/dist/Fail.h"
#include "runtime/dist/Hooks.h"
#include "runtime/dist/Unit.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/module.h>

namespace kiln::dist {

using at::Tensor;

struct FullyShard::Impl : std::enable_shared_from_this<FullyShard::Impl> {
  Impl(std::shared_ptr<Group> group, const FullyShardOptions& options)
      : group(std::move(group)), options(options) {}

  std::shared_ptr<Group> group;
  FullyShardOptions options;
  std::vector<std::unique_ptr<Unit>> units{};
  std::vector<NamedParameter> rest{}; // whole on all ranks
  std::unique_ptr<DataParallel> replicas{};
  std::vector<std::unique_ptr<Hooks>> hooks{};
  optim::SquareSum ofParts{}, ofWhole{};
  std::vector<std::size_t> order{}; // in which units have sent, in this backward
  std::size_t taken = 0;
  int backward = -1;

  void addUnit(const std::vector<NamedParameter>& parameters);
  void bring(std::size_t unit, int direction);
  void begin();
  void arrive(std::size_t unit);
  void takeAllBut(std::size_t count);
  void finish();
};

namespace {

/// Does nothing on the way forward; on the way back, before the block's own backward, it brings the
/// block's parameters.
struct Leave : torch::autograd::Function<Leave> {
  using Call = std::function<void()>;
  struct Kept : torch::CustomClassHolder {
    Call before;
  };

  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& y,
                        const Call& before) {
    auto kept = c10::make_intrusive<Kept>();
    kept->before = before;
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    return y.view_as(y);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto capsule = context->saved_data["kept"].toCapsule();
    static_cast<const Kept&>(*capsule).before();
    return {gradients[0], Tensor()};
  }
};

void checkParameter(const NamedParameter& one, const Group& group) {
  if (one.tensor.scalar_type() != at::kFloat || one.tensor.device() != group.device())
    fail(ErrorKind::input, "FullyShard: {} is of {} on {}; fp32 on {} is needed", one.name,
         c10::toString(one.tensor.scalar_type()), one.tensor.device().str(), group.device().str());
  if (one.tensor.numel() > 0 && one.tensor.storage().nbytes() == 0)
    fail(ErrorKind::input, "FullyShard: {} has no numbers: another FullyShard has taken them",
         one.name);
}

/// Of each block, under the model's names.
std::vector<std::vector<NamedParameter>>
divide(const std::vector<NamedParameter>& all,
       const std::vector<std::shared_ptr<torch::nn::Module>>& blocks, const Group& group) {
  std::map<const void*, std::string> names;
  for (const NamedParameter& one : all)
    names[one.tensor.unsafeGetTensorImpl()] = one.name;
  std::set<const void*> known;
  std::vector<std::vector<NamedParameter>> divided;
  for (const auto& block : blocks) {
    auto& mine = divided.emplace_back(parametersOf(*block));
    if (mine.empty())
      fail(ErrorKind::input, "FullyShard: block {} has no parameters", divided.size() - 1);
    for (NamedParameter& one : mine) {
      const void* tensor = one.tensor.unsafeGetTensorImpl();
      if (!names.contains(tensor) || !known.insert(tensor).second)
        fail(ErrorKind::input, "FullyShard: {} of block {} is {}", one.name, divided.size() - 1,
             names.contains(tensor) ? "also another block's; leave one of the two out of the blocks"
                                    : "no parameter of the model");
      one.name = names[tensor];
      checkParameter(one, group);
    }
  }
  return divided;
}

} // namespace

FullyShard::FullyShard(torch::nn::Module& model,
                       const std::vector<std::shared_ptr<torch::nn::Module>>& blocks,
                       std::shared_ptr<Group> group, const FullyShardOptions& options)
    : impl(std::make_shared<Impl>(std::move(group), options)) {
  if (options.prefetch < 0)
    fail(ErrorKind::input, "FullyShard: prefetch = {}; 0 or more is needed", options.prefetch);
  if (options.compute && !at::isFloatingType(*options.compute))
    fail(ErrorKind::input, "FullyShard: compute = {}; allowed are bf16, fp16 and fp32",
         c10::toString(*options.compute));
  const auto all = parametersOf(model);
  const auto divided = divide(all, blocks, *impl->group);
  checkAgreement(*impl->group, all, fmt::format("options: {} blocks", blocks.size()));
  sendFirst(*impl->group, all);
  std::set<const void*> known;
  for (const auto& mine : divided) {
    impl->addUnit(mine);
    for (const NamedParameter& one : mine)
      known.insert(one.tensor.unsafeGetTensorImpl());
  }
  for (const NamedParameter& one : all)
    if (!known.contains(one.tensor.unsafeGetTensorImpl()))
      impl->rest.push_back(one);
  impl->replicas = std::make_unique<DataParallel>(impl->rest, impl->group);
}

FullyShard::~FullyShard() {
  impl->hooks.clear();
}

void FullyShard::Impl::addUnit(const std::vector<NamedParameter>& parameters) {
  const std::size_t index = units.size();
  units.push_back(std::make_unique<Unit>(parameters, group, options.compute));
  std::vector<Tensor> leaves;
  for (const Slot& slot : units.back()->slots())
    if (slot.tensor().requires_grad())
      leaves.push_back(slot.tensor());
  units.back()->waitsFor = leaves.size();
  hooks.push_back(
      std::make_unique<Hooks>(std::move(leaves), [this, index](std::size_t) { arrive(index); }));
}

/// And what comes next begins to come.
void FullyShard::Impl::bring(std::size_t unit, int direction) {
  units[unit]->wait();
  for (int i = 1; i <= options.prefetch; ++i)
    if (const std::int64_t next = std::int64_t(unit) + i * direction;
        next >= 0 && next < std::int64_t(units.size()))
      units[std::size_t(next)]->gather();
}

Tensor FullyShard::run(std::size_t block, const Forward& forward, const Tensor& x) {
  if (block >= impl->units.size())
    fail(ErrorKind::input, "FullyShard: block {} of {}", block, impl->units.size());
  impl->bring(block, +1);
  Tensor y = forward(x);
  if (y.requires_grad())
    y = Leave::apply(y, Leave::Call([self = impl, block] {
                       self->begin();
                       self->bring(block, -1);
                     }));
  impl->units[block]->free();
  return y;
}

void FullyShard::Impl::begin() {
  const int current = currentBackward();
  if (current == backward)
    return;
  if (backward != -1)
    fail(ErrorKind::input, "FullyShard: a backward began before another ended, which has failed or "
                           "runs around it");
  backward = current;
  atEndOfBackward([self = shared_from_this()] { self->finish(); });
}

/// A block's last gradient: it is sent, its parameters go, and so do sums of blocks some way
/// behind.
void FullyShard::Impl::arrive(std::size_t index) {
  begin();
  Unit& unit = *units[index];
  if (--unit.waitsFor > 0)
    return;
  unit.send();
  unit.free();
  order.push_back(index);
  takeAllBut(std::size_t(options.prefetch));
}

void FullyShard::Impl::takeAllBut(std::size_t count) {
  for (; taken + count < order.size(); ++taken)
    units[order[taken]]->take();
}

void FullyShard::Impl::finish() {
  RECORD_USER_SCOPE("FullyShard.sync");
  backward = -1;
  for (std::size_t i = units.size(); i-- > 0;)
    if (std::find(order.begin(), order.end(), i) == order.end()) {
      units[i]->send();
      order.push_back(i);
    }
  takeAllBut(0);
  order.clear();
  taken = 0;
  for (auto& unit : units) {
    unit->free();
    unit->waitsFor = 0;
    for (const Slot& slot : unit->slots())
      unit->waitsFor += slot.tensor().requires_grad() ? 1 : 0;
  }
}

std::vector<NamedParameter> FullyShard::named() const {
  std::vector<NamedParameter> all;
  for (const auto& unit : impl->units)
    all.insert(all.end(), unit->pieces().begin(), unit->pieces().end());
  all.insert(all.end(), impl->rest.begin(), impl->rest.end());
  return all;
}

std::vector<Tensor> FullyShard::parameters() const {
  std::vector<Tensor> all;
  for (const NamedParameter& one : named())
    if (one.tensor.requires_grad())
      all.push_back(one.tensor);
  return all;
}

Tensor FullyShard::clip(double most) {
  const at::NoGradGuard constant;
  const auto squares = [&](optim::SquareSum& sum, const std::vector<Tensor>& gradients) {
    return gradients.empty() ? at::zeros({}, at::TensorOptions().device(impl->group->device()))
                             : sum.run(gradients);
  };
  std::vector<Tensor> divided, whole;
  for (const auto& unit : impl->units)
    for (const NamedParameter& one : unit->pieces())
      if (one.tensor.grad().defined())
        divided.push_back(one.tensor.grad());
  for (const NamedParameter& one : impl->rest)
    if (one.tensor.grad().defined())
      whole.push_back(one.tensor.grad());
  const Tensor sum = squares(impl->ofParts, divided);
  impl->group->allReduce(sum, Sum::plain, Order::inStream).wait();
  const Tensor norm = (sum + squares(impl->ofWhole, whole)).sqrt();
  divided.insert(divided.end(), whole.begin(), whole.end());
  if (most > 0 && !divided.empty())
    at::_foreach_mul_(divided, (most / (norm + 1e-6)).clamp_max(1));
  return norm;
}

std::vector<NamedParameter> FullyShard::whole() {
  std::vector<NamedParameter> all;
  for (const auto& unit : impl->units)
    for (NamedParameter& one : unit->whole())
      all.push_back(std::move(one));
  for (const NamedParameter& one : impl->rest)
    all.push_back({one.name, one.tensor.detach().clone()});
  return all;
}

void FullyShard::load(const std::vector<NamedParameter>& whole) {
  const at::NoGradGuard constant;
  std::map<std::string, Tensor> given;
  for (const NamedParameter& one : whole)
    given[one.name] = one.tensor;
  const auto find = [&](const NamedParameter& wanted) {
    const auto found = given.find(wanted.name);
    if (found == given.end() || found->second.sizes() != wanted.tensor.sizes())
      fail(ErrorKind::input, "FullyShard: {} of sizes [{}] {}", wanted.name,
           fmt::join(wanted.tensor.sizes(), ", "),
           found == given.end()
               ? "is missing"
               : fmt::format("is given as [{}]", fmt::join(found->second.sizes(), ", ")));
    return NamedParameter{wanted.name, found->second};
  };
  for (const auto& unit : impl->units)
    for (const Slot& slot : unit->slots())
      unit->load(find(slot.parameter));
  for (const NamedParameter& one : impl->rest)
    one.tensor.detach().copy_(find(one).tensor);
}

} // namespace kiln::dist
