// See Inputs.h.
#include "models/alphafold/model/Inputs.h"

#include "models/common/Fail.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <map>
#include <string>

namespace kiln::alphafold {

using at::Tensor;
using models::fail;

namespace {

struct Wanted {
  const char* name;
  const char* shape; // a letter each: a dimension of that size; digits: that size
};
constexpr Wanted read[] = {{"aatype", "R"},
                           {"residue_index", "R"},
                           {"seq_mask", "R"},
                           {"target_feat", "R f"},
                           {"msa_feat", "S R g"},
                           {"msa_mask", "S R"},
                           {"extra_msa_feat", "E R h"},
                           {"extra_msa_mask", "E R"}};
constexpr Wanted ofTemplates[] = {{"template_mask", "T"},
                                  {"template_aatype", "T R"},
                                  {"template_pseudo_beta", "T R 3"},
                                  {"template_pseudo_beta_mask", "T R"},
                                  {"template_all_atom_positions", "T R 37 3"},
                                  {"template_all_atom_mask", "T R 37"},
                                  {"template_torsion_angles_sin_cos", "T R 7 2"},
                                  {"template_alt_torsion_angles_sin_cos", "T R 7 2"},
                                  {"template_torsion_angles_mask", "T R 7"}};
constexpr Wanted truth[] = {{"aatype", "R"},
                            {"residue_index", "R"},
                            {"seq_mask", "R"},
                            {"atom14_gt_positions", "R 14 3"},
                            {"atom14_alt_gt_positions", "R 14 3"},
                            {"atom14_gt_exists", "R 14"},
                            {"atom14_alt_gt_exists", "R 14"},
                            {"atom14_atom_is_ambiguous", "R 14"},
                            {"rigidgroups_gt_frames", "R 8 4 4"},
                            {"rigidgroups_alt_gt_frames", "R 8 4 4"},
                            {"rigidgroups_gt_exists", "R 8"},
                            {"torsion_angles_sin_cos", "R 7 2"},
                            {"alt_torsion_angles_sin_cos", "R 7 2"},
                            {"torsion_angles_mask", "R 7"},
                            {"pseudo_beta", "R 3"},
                            {"pseudo_beta_mask", "R"},
                            {"all_atom_positions", "R 37 3"},
                            {"all_atom_mask", "R 37"},
                            {"bert_mask", "S R"},
                            {"true_msa", "S R"},
                            {"resolution", ""},
                            {"use_clamped_fape", ""}};

/// Sizes that tensors agreed on so far, by letter.
using Sizes = std::map<std::string, std::int64_t>;

void checkOne(const std::map<std::string, Tensor>& all, const Wanted& wanted, Sizes& sizes) {
  const Tensor& tensor = all.at(wanted.name);
  if (!tensor.defined())
    fail(ErrorKind::input, "there is no {}: a tensor [{}] is needed", wanted.name, wanted.shape);
  std::size_t dimension = 0;
  bool fits = true;
  for (const char* at = wanted.shape; *at != 0;) {
    std::string word;
    while (*at != 0 && *at != ' ')
      word += *at++;
    while (*at == ' ')
      ++at;
    fits = fits && dimension < std::size_t(tensor.dim());
    if (!fits)
      break;
    const std::int64_t size = tensor.size(std::int64_t(dimension++));
    const bool isNumber = word.find_first_not_of("0123456789") == std::string::npos;
    fits = size == (isNumber ? std::stoll(word) : sizes.emplace(word, size).first->second);
  }
  if (!fits || dimension != std::size_t(tensor.dim())) {
    std::string known;
    for (const auto& [letter, size] : sizes)
      known += fmt::format("{}{} = {}", known.empty() ? "" : ", ", letter, size);
    fail(ErrorKind::input, "{} is [{}]: it should be [{}], where {} by the tensors before it",
         wanted.name, fmt::join(tensor.sizes(), ", "), wanted.shape, known);
  }
}

template <typename List>
void checkAll(const std::map<std::string, Tensor>& all, const List& list, Sizes& sizes) {
  for (const Wanted& wanted : list)
    checkOne(all, wanted, sizes);
}

std::map<std::string, Tensor> named(const Inputs& inputs) {
  std::map<std::string, Tensor> all;
  inputs.each([&](const char* name, const Tensor& tensor) { all.emplace(name, tensor); });
  return all;
}

} // namespace

Inputs Inputs::to(at::Device device, at::ScalarType dtype) const {
  Inputs moved = *this;
  moved.each([&](const char*, Tensor& tensor) {
    if (tensor.defined())
      tensor = tensor.to(device, tensor.is_floating_point() ? dtype : tensor.scalar_type(),
                         /*non_blocking=*/true);
  });
  return moved;
}

void Inputs::copyFrom(const Inputs& other) {
  std::vector<Tensor> from;
  other.each([&](const char*, const Tensor& tensor) { from.push_back(tensor); });
  auto one = from.begin();
  each([&](const char*, Tensor& tensor) {
    if (tensor.defined())
      tensor.copy_(*one, /*non_blocking=*/true);
    ++one;
  });
}

void Inputs::settle() {
  const auto isFull = [](const Tensor& mask) { return (mask == 1).all().item<bool>(); };
  isSeqFull = isFull(seqMask);
  isMsaFull = isFull(msaMask);
  isExtraMsaFull = isFull(extraMsaMask);
  if (hasTemplates() && (templateMask == 0).all().item<bool>())
    each([](const std::string& name, Tensor& tensor) {
      if (name.starts_with("template_"))
        tensor = Tensor();
    });
}

void Inputs::check() const {
  const auto all = named(*this);
  Sizes sizes;
  checkAll(all, read, sizes);
  if (hasTemplates())
    checkAll(all, ofTemplates, sizes);
  else
    for (const Wanted& wanted : ofTemplates)
      if (all.at(wanted.name).defined())
        fail(ErrorKind::input, "there is a {}, but no template_mask: give all or none of templates",
             wanted.name);
}

void Inputs::checkTruth() const {
  Sizes sizes;
  checkAll(named(*this), truth, sizes);
}

} // namespace kiln::alphafold
