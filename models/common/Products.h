// Linear maps of one tensor as few products, forward and backward: their weights are read side by
// side in the dtype of products, cast in one launch, and what all maps give to the gradient of the
// tensor is added up by the products themselves. Neither results nor gradients are put together or
// apart by copies.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace kiln::models {

/// How a map's results lie in memory.
enum class Layout {
  rows,   // [..., out]: of each row of x
  planes, // [out, ...]: of each channel, as products over positions read them
  stacked // [..., out] each, one behind the other
};

struct Map {
  at::Tensor weight; // [out, in]
  at::Tensor bias{}; // [out] or undefined; not of planes
  Layout layout = Layout::rows;
};

/// What is done to the results of maps of rows where they lie, before anybody reads them, and to
/// their gradients, which nobody else has, before the products read these: of each map [N, out], or
/// undefined where a map has no gradient.
struct InPlace {
  std::function<void(at::TensorList results)> forward = {};
  std::function<void(at::TensorList gradients)> backward = {};
};

/// x weight^T + bias of each map, x [..., in], in the dtype of autocast if it is on for x's device
/// and in x's elsewhere. Neighbours of one layout that all have a bias, or none, are one product,
/// and their results are parts of one tensor; of those stacked neighbours of one size without a
/// bias whose weights lie side by side are, and all others have memory of their own. Gradients that
/// are parts of one tensor in the same order, as kiln::nn::attention gives them, are read as one.
/// No second derivatives.
std::vector<at::Tensor> products(const at::Tensor& x, const std::vector<Map>& maps,
                                 const InPlace& inPlace = {});
/// Within a backward: throws Error(input) if its gradients are to be differentiated again.
void refuseSecondGradients(const char* what);
/// Whether tensors lie one behind the other, as besideEachOther() makes them.
bool lieSideBySide(at::TensorList all);

/// The dtype in which products of x are computed.
at::ScalarType productType(const at::Tensor& x);
/// a b, in another dtype: a GPU's products of bf16 write fp32 themselves.
at::Tensor product(const at::Tensor& a, const at::Tensor& b, at::ScalarType type);
/// Sums down columns [..., columns], accumulated in fp32: the gradient of a bias from that of what
/// it was added to.
at::Tensor columnSums(const at::Tensor& x, at::ScalarType type);
/// Memory for tensors of these sizes one behind the other, each beginning where products want
/// matrices to begin.
std::vector<at::Tensor> besideEachOther(at::TensorList like, at::ScalarType type);
/// Parameters of one dtype in another, one behind the other in memory, by one launch or as Casts
/// keeps them; themselves if they have it.
std::vector<at::Tensor> cast(at::TensorList parameters, at::ScalarType type);

} // namespace kiln::models
