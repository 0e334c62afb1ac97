// See Agree.h.
#include "runtime/dist/Agree.h"
#include "runtime/dist/Fail.h"

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>
#include <set>
#include <sstream>
#include <torch/nn/module.h>

namespace kiln::dist {

namespace {

std::string describe(const NamedParameter& one) {
  return fmt::format("{} [{}] {}{}", one.name, fmt::join(one.tensor.sizes(), ", "),
                     c10::toString(one.tensor.scalar_type()),
                     one.tensor.requires_grad() ? "" : ", frozen");
}

} // namespace

std::vector<std::string> linesOf(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

std::vector<NamedParameter> parametersOf(const torch::nn::Module& module) {
  std::vector<NamedParameter> all;
  for (const auto& one : module.named_parameters())
    all.push_back({one.key(), one.value()});
  return withoutTies(all);
}

std::vector<NamedParameter> withoutTies(const std::vector<NamedParameter>& parameters) {
  std::set<const void*> known;
  std::vector<NamedParameter> all;
  for (const NamedParameter& one : parameters)
    if (known.insert(one.tensor.unsafeGetTensorImpl()).second)
      all.push_back(one);
  return all;
}

void checkAgreement(Group& group, const std::vector<NamedParameter>& parameters,
                    const std::string& options) {
  std::string mine = options + '\n';
  for (const NamedParameter& one : parameters)
    mine += describe(one) + '\n';
  const auto all = group.gather(mine);
  const auto first = linesOf(all[0]);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const auto other = linesOf(all[rank]);
    for (std::size_t i = 0; i < std::max(first.size(), other.size()); ++i)
      if (i >= first.size() || i >= other.size() || first[i] != other[i])
        fail(ErrorKind::input,
             "ranks must have the same parameters in the same order: rank {} has {}, rank 0 has {}",
             rank, i < other.size() ? other[i] : "no more",
             i < first.size() ? first[i] : "no more");
  }
}

void sendFirst(Group& group, const std::vector<NamedParameter>& parameters) {
  const at::NoGradGuard constant;
  for (const NamedParameter& one : parameters) {
    const at::Tensor sent = one.tensor.detach().to(group.device()).contiguous();
    group.broadcast(sent).wait();
    if (sent.data_ptr() != one.tensor.data_ptr())
      one.tensor.detach().copy_(sent);
  }
}

} // namespace kiln::dist
