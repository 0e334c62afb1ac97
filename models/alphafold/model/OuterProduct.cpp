// See OuterProduct.h. With the residues of one side innermost the products of all channels are
// matrices [hidden hidden, R] of each residue of the other, which the linear map reads as they lie.
#include "models/alphafold/model/OuterProduct.h"

#include "models/common/Products.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace kiln::alphafold {

using at::Tensor;
using models::cast;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

struct OuterProduct : torch::autograd::Function<OuterProduct> {
  static Tensor forward(AutogradContext* context, const Tensor& left, const Tensor& right,
                        const Tensor& weight) {
    const std::int64_t rows = left.size(0), residues = left.size(1), hidden = left.size(2);
    const Tensor read = cast({weight}, left.scalar_type())[0];
    const Tensor a = left.reshape({rows, -1});                               // [S, i c]
    const Tensor b = right.transpose(1, 2).reshape({rows, -1});              // [S, d j]
    const Tensor products = at::mm(a.t(), b).view({residues, -1, residues}); // [i, c d, j]
    context->save_for_backward({a, b, products, read});
    context->saved_data["hidden"] = hidden;
    context->saved_data["parameters"] = weight.scalar_type();
    return at::bmm(products.transpose(1, 2), read.t().expand({residues, -1, -1}));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Tensor& given = gradients[0]; // [i, j, out]
    if (!given.defined())
      return variable_list(3);
    const variable_list saved = context->get_saved_variables();
    const Tensor &a = saved[0], &b = saved[1], &products = saved[2], &weight = saved[3];
    const std::int64_t rows = a.size(0), residues = products.size(0);
    const std::int64_t hidden = context->saved_data["hidden"].toInt();
    const Tensor columns = given.transpose(1, 2); // [i, out, j]
    const Tensor ofWeight =
        at::bmm(columns, products.transpose(1, 2))
            .sum(0, /*keepdim=*/false, context->saved_data["parameters"].toScalarType());
    const Tensor ofProducts = at::bmm(weight.t().expand({residues, -1, -1}), columns)
                                  .view({residues * hidden, hidden * residues}); // [i c, d j]
    const Tensor ofLeft = at::mm(b, ofProducts.t()).view({rows, residues, hidden});
    const Tensor ofRight =
        at::mm(a, ofProducts).view({rows, hidden, residues}).transpose(1, 2).contiguous();
    return {ofLeft, ofRight, ofWeight};
  }
};

} // namespace

Tensor outerProduct(const Tensor& left, const Tensor& right, const Tensor& weight) {
  return OuterProduct::apply(left, right, weight);
}

} // namespace kiln::alphafold
