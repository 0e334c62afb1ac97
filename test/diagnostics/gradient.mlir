// Asking for a backward that does not exist is an error at the operation, also inside a chain.
// RUN: kiln-opt %s --kiln-differentiate -verify-diagnostics -o /dev/null

func.func @chain(%x: tensor<?x8xf32>, %k: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %a = math.exp %x : tensor<?x8xf32>
  // expected-error @+1 {{'math.powf' has no gradient; write this part with other operations, or compile without the backward}}
  %b = math.powf %a, %k : tensor<?x8xf32>
  %c = kiln.softmax %b : tensor<?x8xf32> -> tensor<?x8xf32>
  return %c : tensor<?x8xf32>
}
