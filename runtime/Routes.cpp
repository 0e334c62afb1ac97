// All routed ops. One more is a file in runtime/ops/, in a namespace of its own since these files
// are compiled together, and its names here.
#include "runtime/Route.h"

namespace kiln::runtime {

extern Route layerNorm, layerNormBackward, rmsNorm, rmsNormBackward, softmax, softmaxBackward,
    logSoftmax, logSoftmaxBackward, gelu, geluBackward, silu, siluBackward, crossEntropy,
    crossEntropyShare, mixedRmsNorm, mixedRmsNormBackward, wideLayerNorm, wideLayerNormBackward,
    wideSoftmax, wideSoftmaxBackward, wideLogSoftmax, wideLogSoftmaxBackward, dropout,
    dropoutBackward, scaledDotProduct, scaledDotProductBackward;

std::span<Route* const> routes() {
  static Route* all[] = {&layerNorm,
                         &layerNormBackward,
                         &rmsNorm,
                         &rmsNormBackward,
                         &softmax,
                         &softmaxBackward,
                         &logSoftmax,
                         &logSoftmaxBackward,
                         &gelu,
                         &geluBackward,
                         &silu,
                         &siluBackward,
                         &crossEntropy,
                         &crossEntropyShare,
                         &mixedRmsNorm,
                         &mixedRmsNormBackward,
                         &wideLayerNorm,
                         &wideLayerNormBackward,
                         &wideSoftmax,
                         &wideSoftmaxBackward,
                         &wideLogSoftmax,
                         &wideLogSoftmaxBackward,
                         &dropout,
                         &dropoutBackward,
                         &scaledDotProduct,
                         &scaledDotProductBackward};
  static const bool numbered = [] {
    unsigned index = 0;
    for (Route* route : all)
      route->index = index++;
    return true;
  }();
  static_cast<void>(numbered);
  return all;
}

} // namespace kiln::runtime
