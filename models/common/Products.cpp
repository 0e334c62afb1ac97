// See Products.h.
#include "models/common/Products.h"

#include "kiln/fuse.h"
#include "models/common/Casts.h"
#include "models/common/Fail.h"
#include "models/common/Precision.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <map>
#include <optional>

namespace kiln::models {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::ScalarType productType(const Tensor& x) {
  const auto autocast = Autocast::current(x.device().type());
  return autocast.enabled && x.scalar_type() != at::kDouble ? autocast.dtype : x.scalar_type();
}

Tensor product(const Tensor& a, const Tensor& b, at::ScalarType type) {
  return a.is_cuda() && at::isReducedFloatingType(a.scalar_type()) && type == at::kFloat
             ? at::mm(a, b, type)
             : at::mm(a, b).to(type);
}

Tensor columnSums(const Tensor& x, at::ScalarType type) {
  static const auto sums =
      fuse([](const Expr& x) { return kiln::columnSums(x); }, {.name = "column_sums"});
  return sums(x).view(-1).to(type);
}

std::vector<Tensor> besideEachOther(at::TensorList like, at::ScalarType type) {
  constexpr std::int64_t step = 16; // bytes
  const std::int64_t unit = step / std::int64_t(c10::elementSize(type));
  const auto padded = [&](const Tensor& tensor) {
    return (tensor.numel() + unit - 1) / unit * unit;
  };
  std::int64_t count = 0;
  for (const Tensor& tensor : like)
    count += padded(tensor);
  const Tensor memory = at::empty({count}, like[0].options().dtype(type).requires_grad(false));
  std::vector<Tensor> all;
  std::int64_t from = 0;
  for (const Tensor& tensor : like) {
    all.push_back(memory.narrow(0, from, tensor.numel()).view(tensor.sizes()));
    from += padded(tensor);
  }
  return all;
}

std::vector<Tensor> cast(at::TensorList parameters, at::ScalarType type) {
  if (parameters[0].scalar_type() == type)
    return parameters.vec();
  if (const std::vector<Tensor>* kept = Casts::find(parameters, type))
    return *kept;
  const std::vector<Tensor> all = besideEachOther(parameters, type);
  at::_foreach_copy_(all, parameters);
  return all;
}

namespace {

/// Maps that are one product.
struct Group {
  Layout layout;
  bool hasBias;
  std::vector<std::int64_t> outs; // of each
};

/// [rows, columns], as a view if it can be one.
Tensor matrixOf(const Tensor& rows) {
  return rows.reshape({-1, rows.size(-1)});
}

/// What lies in memory right behind `first`, along its rows or beneath them, with it; none if it
/// does not.
std::optional<Tensor> together(const Tensor& first, const Tensor& second, Layout layout) {
  const std::int64_t along = layout == Layout::planes ? 0 : 1;
  const bool isNext =
      first.is_alias_of(second) && first.strides() == second.strides() &&
      second.storage_offset() == first.storage_offset() + first.size(along) * first.stride(along);
  if (!isNext)
    return std::nullopt;
  std::vector<std::int64_t> sizes = first.sizes().vec();
  sizes[std::size_t(along)] += second.size(along);
  return first.as_strided(sizes, first.strides());
}

/// What lies one beneath the other, as one; none if it does not.
std::optional<Tensor> whereTheyLie(at::TensorList parts) {
  std::optional<Tensor> all = parts[0];
  for (std::size_t i = 1; all && i < parts.size(); ++i)
    all = together(*all, parts[i], Layout::planes);
  return all;
}

/// Parameters one beneath the other, where they lie if they do so.
Tensor joined(at::TensorList parts) {
  const auto all = whereTheyLie(parts);
  return all ? *all : at::cat(parts);
}

/// A gradient of some of a group's maps, [N, outs] or [outs, N], and where its outputs begin.
struct Run {
  Tensor gradient;
  std::int64_t from;
};

/// Whether nobody else has these gradients, or tensors of their memory: all of it are they and what
/// they are views of, which nobody else has either.
bool areOurs(const variable_list& gradients) {
  std::map<const void*, std::size_t> uses; // of the memory's, and of what views are of, by us
  for (const Tensor& one : gradients) {
    if (!one.defined())
      continue;
    ++uses[one.storage().unsafeGetStorageImpl()];
    if (one.is_view() && uses[one._base().unsafeGetTensorImpl()]++ == 0)
      ++uses[one.storage().unsafeGetStorageImpl()];
  }
  return std::all_of(gradients.begin(), gradients.end(), [&](const Tensor& one) {
    return !one.defined() ||
           (one.use_count() == 1 &&
            one.storage().use_count() == uses[one.storage().unsafeGetStorageImpl()] &&
            (!one.is_view() || one._base().use_count() == uses[one._base().unsafeGetTensorImpl()]));
  });
}

struct Products : torch::autograd::Function<Products> {
  struct Kept : torch::CustomClassHolder {
    std::vector<Group> groups;
    std::function<void(at::TensorList)> inPlace; // of gradients
    at::ScalarType given;                        // of x
    std::vector<at::ScalarType> parameters;
  };

  /// `all`: x, then of each group its weights and its biases.
  static variable_list forward(AutogradContext* context, const std::vector<Group>& groups,
                               const InPlace& inPlace, at::TensorList all) {
    const Tensor& given = all[0];
    auto kept = c10::make_intrusive<Kept>();
    kept->groups = groups;
    kept->inPlace = inPlace.backward;
    kept->given = given.scalar_type();
    for (const Tensor& parameter : all.slice(1))
      kept->parameters.push_back(parameter.scalar_type());
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    context->set_materialize_grads(false); // what nobody has read has none
    const at::ScalarType type = productType(given);
    const Tensor x = matrixOf(given.to(type));
    variable_list saved = {x}, results;
    const auto leading = given.sizes().slice(0, std::size_t(given.dim() - 1));
    const std::vector<Tensor> parameters = cast(all.slice(1), type);
    std::size_t next = 0;
    for (const Group& group : groups) {
      const std::size_t count = group.outs.size();
      const Tensor weight = joined(at::TensorList(parameters).slice(next, count));
      next += count;
      const Tensor bias =
          group.hasBias ? joined(at::TensorList(parameters).slice(next, count)) : Tensor();
      next += group.hasBias ? count : 0;
      saved.push_back(weight);
      const bool isPlanes = group.layout == Layout::planes;
      std::vector<std::int64_t> sizes = leading.vec();
      if (group.layout == Layout::stacked && count > 1) {
        sizes.push_back(group.outs[0]);
        for (const Tensor& one : stacked(x, weight, group.outs).unbind())
          results.push_back(one.view(sizes));
        continue;
      }
      sizes.insert(isPlanes ? sizes.begin() : sizes.end(), weight.size(0));
      const Tensor product = isPlanes        ? at::mm(weight, x.t())
                             : group.hasBias ? at::addmm(bias, x, weight.t())
                                             : at::mm(x, weight.t());
      for (Tensor& part : product.view(sizes).split_with_sizes(group.outs, isPlanes ? 0 : -1))
        results.push_back(std::move(part));
    }
    context->save_for_backward(saved);
    if (inPlace.forward) {
      variable_list matrices;
      for (const Tensor& one : results)
        matrices.push_back(matrixOf(one));
      inPlace.forward(matrices);
    }
    return results;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto capsule = context->saved_data["kept"].toCapsule();
    const auto& kept = static_cast<const Kept&>(*capsule);
    const variable_list saved = context->get_saved_variables();
    const Tensor& x = saved[0];
    const bool wantsX = context->needs_input_grad(0);
    const bool ours = kept.inPlace && areOurs(gradients); // before there are views of them here
    Tensor ofX;
    variable_list ofParameters;
    std::size_t next = 0;
    std::vector<std::int64_t> sizes;
    for (std::size_t i = 0; i < kept.groups.size(); ++i) {
      const Group& group = kept.groups[i];
      const auto own = at::TensorList(gradients).slice(next, group.outs.size());
      next += group.outs.size();
      for (const Tensor& one : own)
        if (one.defined() && sizes.empty()) {
          const bool isPlanes = group.layout == Layout::planes;
          sizes.assign(one.sizes().begin() + (isPlanes ? 1 : 0),
                       one.sizes().end() - (isPlanes ? 0 : 1));
          sizes.push_back(x.size(1));
        }
      std::vector<Run> runs = runsOf(group, own);
      if (kept.inPlace)
        change(runs, group, ours, kept.inPlace);
      for (const auto& [gradient, from] : runs)
        if (wantsX) {
          const Tensor rows = group.layout == Layout::planes ? gradient.t() : gradient;
          add(ofX, rows, saved[i + 1].narrow(0, from, rows.size(1)));
        }
      addParameters(ofParameters, group, runs, x, kept.parameters.at(ofParameters.size()));
    }
    variable_list all = {Tensor(), Tensor(), // of what is no tensor
                         ofX.defined() ? ofX.view(sizes).to(kept.given) : Tensor()};
    all.insert(all.end(), ofParameters.begin(), ofParameters.end());
    return all;
  }

 private:
  /// [maps, N, out]
  static Tensor stacked(const Tensor& x, const Tensor& weight,
                        const std::vector<std::int64_t>& outs) {
    const auto count = std::int64_t(outs.size());
    return at::bmm(x.expand({count, -1, -1}),
                   weight.view({count, outs[0], weight.size(1)}).transpose(1, 2));
  }

  static std::vector<Run> runsOf(const Group& group, at::TensorList gradients) {
    std::vector<Run> runs;
    std::int64_t at = 0, end = 0; // end: of the last run
    for (std::size_t i = 0; i < gradients.size(); at += group.outs[i++]) {
      if (!gradients[i].defined())
        continue;
      const Tensor now =
          group.layout == Layout::planes ? gradients[i].flatten(1) : matrixOf(gradients[i]);
      const auto both = !runs.empty() && end == at
                            ? together(runs.back().gradient, now, group.layout)
                            : std::nullopt;
      if (both)
        runs.back().gradient = *both;
      else
        runs.push_back({now, at});
      end = at + group.outs[i];
    }
    return runs;
  }

  /// Of what a run's outputs have along a dimension, the part of each of its maps.
  static void takeParts(variable_list& parts, const Group& group, const Tensor& all,
                        std::int64_t dimension, std::int64_t begin) {
    std::int64_t from = 0;
    for (std::size_t i = 0; i < parts.size(); from += group.outs[i++])
      if (from >= begin && from < begin + all.size(dimension))
        parts[i] = all.narrow(dimension, from - begin, group.outs[i]);
  }

  /// In memory that may be written.
  static void change(std::vector<Run>& runs, const Group& group, bool ours,
                     const std::function<void(at::TensorList)>& inPlace) {
    refuseSecondGradients("products whose gradients are changed in place");
    variable_list parts(group.outs.size());
    for (auto& [gradient, begin] : runs) {
      if (!ours)
        gradient = gradient.clone();
      takeParts(parts, group, gradient, 1, begin);
    }
    inPlace(parts);
  }

  /// sum += rows weight
  static void add(Tensor& sum, const Tensor& rows, const Tensor& weight) {
    if (sum.defined())
      sum.addmm_(rows, weight);
    else
      sum = at::mm(rows, weight);
  }

  /// Gradients of a group's weights, then of its biases.
  static void addParameters(variable_list& all, const Group& group, const std::vector<Run>& runs,
                            const Tensor& x, at::ScalarType type) {
    variable_list weights(group.outs.size()), biases(group.hasBias ? group.outs.size() : 0);
    for (const auto& [gradient, begin] : runs) {
      const Tensor byOut = group.layout == Layout::planes ? gradient : gradient.t(); // [outs, N]
      takeParts(weights, group, product(byOut, x, type), 0, begin);
      if (group.hasBias)
        takeParts(biases, group, columnSums(gradient, type), 0, begin);
    }
    all.insert(all.end(), weights.begin(), weights.end());
    all.insert(all.end(), biases.begin(), biases.end());
  }
};

} // namespace

/// Whether two maps are one product.
static bool isOne(const Map& first, const Map& second) {
  if (first.layout != second.layout || first.bias.defined() != second.bias.defined())
    return false;
  return first.layout != Layout::stacked ||
         (!first.bias.defined() && first.weight.sizes() == second.weight.sizes() &&
          together(first.weight, second.weight, Layout::planes));
}

void refuseSecondGradients(const char* what) {
  if (at::GradMode::is_enabled())
    fail(ErrorKind::input,
         "{} have no gradients of gradients: do not pass create_graph, or compute without Kiln's "
         "modules",
         what);
}

bool lieSideBySide(at::TensorList all) {
  return whereTheyLie(all).has_value();
}

std::vector<Tensor> products(const Tensor& x, const std::vector<Map>& maps,
                             const InPlace& inPlace) {
  std::vector<Group> groups;
  std::vector<Tensor> all = {x};
  for (std::size_t i = 0; i < maps.size();) {
    Group group{maps[i].layout, maps[i].bias.defined(), {}};
    const std::size_t begin = i;
    do {
      group.outs.push_back(maps[i].weight.size(0));
      all.push_back(maps[i].weight);
    } while (++i < maps.size() && isOne(maps[i - 1], maps[i]));
    for (std::size_t j = begin; group.hasBias && j < i; ++j)
      all.push_back(maps[j].bias);
    groups.push_back(std::move(group));
  }
  return Products::apply(groups, inPlace, at::TensorList(all));
}

} // namespace kiln::models
