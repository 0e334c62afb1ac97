// MLIR text of the functions in the numerics table, by width and element type.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::test {

using Width = std::int64_t;

/// `lead`: leading dimensions as MLIR writes them ("?x", "4x?x", "").
std::string layerNormText(Width n, const std::string& type, const std::string& affine = "f32",
                          const std::string& lead = "?x", const std::string& layout = "");
std::string rmsNormText(Width n, const std::string& type, bool gamma = true);
std::string softmaxText(Width n, const std::string& type, bool bias, bool mask, double scale = 1);
/// Every row reduction of x, and with `sums` the sums down the columns and over everything.
std::string reduceText(Width n, const std::string& type, bool sums);
/// The sums of x over `dims`, one result for each list of dimensions, rounded to `to`.
std::string leadingSumsText(Width n, const std::string& type, const std::vector<std::string>& lead,
                            const std::vector<std::vector<int>>& dims,
                            const std::string& to = "f32", const std::string& layout = "");
/// (x + b) * g with b: tensor<6xn> and g: tensor<?x1xn>, whose gradients are sums over some
/// leading dimensions; x: tensor<?x6xn>.
std::string rowMeansText(Width n, const std::string& type);
std::string sharedBiasText(Width n, const std::string& type, const std::string& bias);
/// Rows of %t: tensor<`table` x n> by %i: tensor<`lead`>, and what RMSNorm makes of them if `norm`.
std::string gatherText(Width n, const std::string& type, const std::string& table,
                       const std::string& lead, const std::string& index, bool norm,
                       const std::string& options = "");
/// Sums of the rows of %x by segment, rounded to `to`.
std::string segmentSumText(Width n, const std::string& type, const std::string& segments,
                           const std::string& lead, const std::string& index, const std::string& to,
                           const std::string& options = "");
/// kiln.`op` of %x, with another operand %z after it if `gated`; `options` follow the operands.
std::string activationText(const std::string& op, Width n, const std::string& type,
                           bool gated = false, const std::string& options = "",
                           const std::string& lead = "?x");
/// A step of AdamW on rows (lists of tensors have tests of their own); `ema`: with the average.
std::string adamwText(Width n, const std::string& type, bool ema);
/// log_softmax from one type to another.
std::string logSoftmaxText(Width n, const std::string& type, const std::string& to);
/// x weighted by its column and masked by row and column; and the sum of the two.
std::string indexText(Width n, const std::string& type, const std::string& index);
/// The element of each row of x that an index of type `index` chooses, and of x * x.
std::string pickText(Width n, const std::string& type, const std::string& index);
/// Values of rows alone, weighted by their index, and their weighted mean.
std::string rowIndexText();
/// Loss and lse of logits and targets of type `index`.
std::string crossEntropyText(Width n, const std::string& type, const std::string& index,
                             const std::string& options = "", const std::string& lead = "?x");
/// Loss, and the gradient of the logits for a given gradient of the loss of each row, as one
/// function; the rows' losses are added up, and those that count are counted.
std::string lossAndGradientText(Width n, const std::string& type);
/// `options`: pairing, base and width; the positions [b] or [s] of x: tensor<bxsx3xn>.
std::string ropeText(Width n, const std::string& type, const std::string& index,
                     const std::string& options, bool ofBatch = false);
/// RMSNorm of each head, then rope.
std::string normRopeText(Width n, const std::string& type, const std::string& options);
/// Sine and cosine in fp32 of bf16 angles.
std::string anglesText(Width n);
/// x weighted by another value of its pair; `pairs` as in the attribute.
std::string partnerText(Width n, const std::string& type, const std::string& pairs);
/// Three LayerNorms of x, two of them with weights.
std::string severalNormsText(Width n, const std::string& type);
/// LayerNorm of the sum of four tensors; the sum is a result too.
std::string sumNormText(Width n, const std::string& type);
/// x + r, and its RMSNorm.
std::string residualNormText(Width n, const std::string& type);
/// LayerNorm of tensor<?x?xn>, transposed.
std::string normTransposeText(Width n, const std::string& type);
/// LayerNorm of tensor<`lead`n>, stored channel-first.
std::string channelFirstText(Width n, const std::string& type, const std::string& lead = "?x?x");
/// A channel-first x times a channel-last z, as both.
std::string channelLastText(Width n, const std::string& type);
/// x: tensor<`from`> in another order, tensor<`to`>, and nothing else.
std::string movedText(const std::string& from, const std::string& to,
                      const std::string& permutation, const std::string& type);
/// exp(x) in another order of dimensions, plus z, which lies in that order: x is tensor<?x3x5xn>.
std::string transposeText(Width n, const std::string& type, const std::string& permutation,
                          const std::string& lead);
/// z + dropout(x + bias), with the mask shared along `shared`.
std::string dropoutResidualText(Width n, const std::string& type, const std::string& shared);
std::string gateText(Width n, const std::string& type);
std::string geluText(Width n, const std::string& type);
/// softmax(tanh(x) * row value + column) * x with row values from another reduction.
std::string chainText(Width n, const std::string& type);
/// x + y repeated along the row, the columns, one leading dimension, and from a scalar.
std::string broadcastText(Width n, const std::string& type);
/// x * z + w, with layouts for the three: attributes of #kiln.layout, or empty.
std::string stridedText(Width n, const std::string& type, const std::string& x,
                        const std::string& z, const std::string& w);
/// Numbers of every kind that broadcasts to x: of elements, of columns, of rows, one for all.
std::string randomText(Width n, const std::string& type);
/// Sums of numbers along rows, down columns and over everything, and numbers of rows with an offset
/// of their own. x gives nothing but sizes.
std::string randomSumsText(Width n);
/// `shared`: dimensions, as text, of x: tensor<?x3xn>.
std::string dropoutText(Width n, const std::string& type, double p, const std::string& shared);
/// Bias, dropout, residual, LayerNorm; the sum and the normalised are results.
std::string dropoutNormText(Width n, const std::string& type);
std::string stochasticRoundText(Width n);
/// Two kernels written by hand, one after the other.
std::string kernelText(Width n, const std::string& type);
/// Comparisons, selections, integers and every rounding function.
std::string scalarText(Width n);
std::string calledText(Width n);
std::string comparisonText(const std::string& order, Width n);

} // namespace kiln::test
