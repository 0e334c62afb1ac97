// See kiln/dist/data_parallel.h.
#include "kiln/dist/data_parallel.h"

#include "runtime/dist/Agree.h"
#include "runtime/dist/Reducer.h"

#include <torch/nn/module.h>

namespace kiln::dist {

namespace {

std::vector<NamedParameter> buffersOf(const torch::nn::Module& module) {
  std::vector<NamedParameter> all;
  for (const auto& one : module.named_buffers())
    all.push_back({one.key(), one.value()});
  return all;
}

} // namespace

DataParallel::DataParallel(const std::vector<NamedParameter>& parameters,
                           std::shared_ptr<Group> group, const DataParallelOptions& options)
    : impl(std::make_shared<Impl>(parameters, std::move(group), options)) {
  impl->listen();
}

DataParallel::DataParallel(torch::nn::Module& module, std::shared_ptr<Group> group,
                           const DataParallelOptions& options)
    : DataParallel(parametersOf(module), std::move(group), options) {
  checkAgreement(*impl->group, buffersOf(module), "buffers");
  sendFirst(*impl->group, buffersOf(module));
}

DataParallel::~DataParallel() {
  impl->hooks.reset();
}

void DataParallel::syncGrad() {
  impl->finish();
}

std::vector<std::vector<std::string>> DataParallel::buckets() const {
  std::vector<std::vector<std::string>> names;
  for (const auto& bucket : impl->buckets) {
    auto& here = names.emplace_back();
    for (const Slot* slot : bucket->slots())
      here.push_back(slot->parameter.name);
  }
  return names;
}

const std::shared_ptr<Group>& DataParallel::group() const {
  return impl->group;
}

const DataParallelOptions& DataParallel::options() const {
  return impl->options;
}

DataParallel::NoSync::NoSync(DataParallel& of) : of(of), before(of.impl->quiet) {
  of.impl->quiet = true;
}

DataParallel::NoSync::~NoSync() {
  of.impl->quiet = before;
}

} // namespace kiln::dist
