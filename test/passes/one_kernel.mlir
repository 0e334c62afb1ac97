// What training code hopes to be one kernel is one: gates, gated activations and a loss, with
// their backwards. A gradient summed down the columns has a second kernel that adds its parts.
// RUN: split-file %s %t
// RUN: kiln-opt %t/gate.mlir --kiln-differentiate --kiln-fuse | FileCheck %t/gate.mlir
// RUN: kiln-opt %t/gate.mlir --kiln-differentiate --kiln-emittable=function=gate_backward | FileCheck %t/gate.mlir --check-prefix=LAUNCHED
// RUN: kiln-opt %t/swiglu.mlir --kiln-differentiate --kiln-fuse | FileCheck %t/swiglu.mlir
// RUN: kiln-opt %t/geglu.mlir --kiln-differentiate --kiln-fuse | FileCheck %t/geglu.mlir
// RUN: kiln-opt %t/loss.mlir --kiln-differentiate=together --kiln-fuse | FileCheck %t/loss.mlir
// RUN: kiln-opt %t/loss.mlir --kiln-differentiate=together --kiln-emittable=function=loss_with_gradient | FileCheck %t/loss.mlir --check-prefix=LAUNCHED

//--- gate.mlir
// CHECK-LABEL: func.func @gate(
// CHECK-NEXT: %[[Y:.*]] = kiln.kernel "gate"(
// CHECK-NOT: kiln.kernel
// CHECK: return %[[Y]]
// The backward reads what the forward read and dy, and adds up dy's part for the bias as it goes.
// CHECK-LABEL: func.func @gate_backward(
// CHECK-NEXT: %[[D:.*]]:3 = kiln.kernel "gate_backward"(%{{[a-z0-9]*}}, %{{[a-z0-9]*}}, %{{[a-z0-9]*}}, %{{[a-z0-9]*}}) :
// CHECK-NOT: kiln.kernel
// CHECK: return %[[D]]#{{[0-2]}}, %[[D]]#{{[0-2]}}, %[[D]]#{{[0-2]}} : tensor<?x128xbf16>, tensor<?x128xbf16>, tensor<128xf32>
// LAUNCHED-COUNT-1: cu.kernel "kiln_gate_backward"
// LAUNCHED-COUNT-1: cu.kernel "kiln_gate_backward_columns"
// LAUNCHED-NOT: cu.kernel
func.func @gate(%x: tensor<?x128xbf16>, %g: tensor<?x128xbf16>, %bias: tensor<128xf32>) -> tensor<?x128xbf16> {
  %gf = arith.extf %g : tensor<?x128xbf16> to tensor<?x128xf32>
  %b = kiln.broadcast %bias dims [1] like %g : tensor<128xf32>, tensor<?x128xbf16> -> tensor<?x128xf32>
  %t = arith.addf %gf, %b : tensor<?x128xf32>
  %s = kiln.sigmoid %t : tensor<?x128xf32> -> tensor<?x128xf32>
  %xf = arith.extf %x : tensor<?x128xbf16> to tensor<?x128xf32>
  %q = arith.mulf %xf, %s : tensor<?x128xf32>
  %y = arith.truncf %q : tensor<?x128xf32> to tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

//--- swiglu.mlir
// CHECK-LABEL: func.func @swiglu(
// CHECK-NEXT: kiln.kernel "swiglu"(%{{[a-z0-9]*}}, %{{[a-z0-9]*}}) :
// CHECK-NOT: kiln.kernel
// CHECK-LABEL: func.func @swiglu_backward(
// CHECK-NEXT: %[[D:.*]]:2 = kiln.kernel "swiglu_backward"(%{{[a-z0-9]*}}, %{{[a-z0-9]*}}, %{{[a-z0-9]*}}) :
// CHECK-COUNT-1: math.exp
// CHECK-NOT: math.exp
// CHECK-NOT: kiln.kernel
// CHECK: return %[[D]]#{{[01]}}, %[[D]]#{{[01]}}
func.func @swiglu(%g: tensor<?x2048xbf16>, %x: tensor<?x2048xbf16>) -> tensor<?x2048xbf16> {
  %y = kiln.swiglu %g, %x : tensor<?x2048xbf16>, tensor<?x2048xbf16> -> tensor<?x2048xbf16>
  return %y : tensor<?x2048xbf16>
}

//--- geglu.mlir
// CHECK-LABEL: func.func @geglu(
// CHECK-NEXT: kiln.kernel "geglu"(%{{[a-z0-9]*}}, %{{[a-z0-9]*}}) :
// CHECK-NOT: kiln.kernel
// CHECK-LABEL: func.func @geglu_backward(
// CHECK-NEXT: %[[D:.*]]:2 = kiln.kernel "geglu_backward"(%{{[a-z0-9]*}}, %{{[a-z0-9]*}}, %{{[a-z0-9]*}}) :
// CHECK-COUNT-1: math.erf
// CHECK-NOT: math.erf
// CHECK-NOT: kiln.kernel
// CHECK: return %[[D]]#{{[01]}}, %[[D]]#{{[01]}}
func.func @geglu(%g: tensor<?x2048xbf16>, %x: tensor<?x2048xbf16>) -> tensor<?x2048xbf16> {
  %y = kiln.geglu %g, %x : tensor<?x2048xbf16>, tensor<?x2048xbf16> -> tensor<?x2048xbf16>
  return %y : tensor<?x2048xbf16>
}

//--- loss.mlir
// Cross-entropy of each row, its sum, and the gradient of the logits: they are read once.
// CHECK-LABEL: func.func @loss_with_gradient(
// CHECK-NEXT: %[[K:.*]]:3 = kiln.kernel "loss_with_gradient"(%{{[a-z0-9]*}}, %{{[a-z0-9]*}}, %{{[a-z0-9]*}}) :
// CHECK-NOT: kiln.kernel
// CHECK: return %[[K]]#{{[0-2]}}, %[[K]]#{{[0-2]}}, %[[K]]#{{[0-2]}} : tensor<?xf32>, tensor<f32>, tensor<?x1000xbf16>
// LAUNCHED: cu.kernel "kiln_loss_with_gradient"
// LAUNCHED-COUNT-1: cu.load %
// LAUNCHED-NOT: cu.load %
// LAUNCHED: cu.accumulate_row
// LAUNCHED: cu.kernel "kiln_loss_with_gradient_columns"
// LAUNCHED-NOT: cu.kernel
func.func @loss(%x: tensor<?x1000xbf16>, %t: tensor<?xi64>)
    -> (tensor<?xf32> {kiln.name = "loss"}, tensor<f32> {kiln.name = "sum", kiln.gradient = false}) {
  %loss, %lse = kiln.cross_entropy %x, %t : (tensor<?x1000xbf16>, tensor<?xi64>) -> (tensor<?xf32>, tensor<?xf32>)
  %sum = kiln.reduce sum %loss dims [0] : tensor<?xf32> -> tensor<f32>
  return %loss, %sum : tensor<?xf32>, tensor<f32>
}
