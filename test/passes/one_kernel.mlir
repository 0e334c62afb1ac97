// What training code hopes to be one kernel is one: gates, gated activations, a loss, norms and
// dropout with what stands around them, and their backwards. A gradient summed down the columns has
// a second kernel that adds its parts.
// RUN: split-file %s %t
// RUN: kiln-opt %t/gate.mlir --kiln-differentiate --kiln-fuse | FileCheck %t/gate.mlir
// RUN: kiln-opt %t/gate.mlir --kiln-differentiate --kiln-emittable=function=gate_backward | FileCheck %t/gate.mlir --check-prefix=LAUNCHED
// RUN: kiln-opt %t/swiglu.mlir --kiln-differentiate --kiln-fuse | FileCheck %t/swiglu.mlir
// RUN: kiln-opt %t/geglu.mlir --kiln-differentiate --kiln-fuse | FileCheck %t/geglu.mlir
// RUN: kiln-opt %t/loss.mlir --kiln-differentiate=together --kiln-fuse | FileCheck %t/loss.mlir
// RUN: kiln-opt %t/loss.mlir --kiln-differentiate=together --kiln-emittable=function=loss_with_gradient | FileCheck %t/loss.mlir --check-prefix=LAUNCHED
// RUN: kiln-opt %t/several_norms.mlir --kiln-differentiate --kiln-fuse | FileCheck %t/several_norms.mlir
// RUN: kiln-opt %t/several_norms.mlir --kiln-emittable=function=several_norms | FileCheck %t/several_norms.mlir --check-prefix=LAUNCHED
// RUN: kiln-opt %t/sum_norm.mlir --kiln-differentiate --kiln-fuse | FileCheck %t/sum_norm.mlir
// RUN: kiln-opt %t/residual_rms_norm.mlir --kiln-differentiate --kiln-fuse | FileCheck %t/residual_rms_norm.mlir
// RUN: kiln-opt %t/norm_transpose.mlir --kiln-differentiate --kiln-fuse | FileCheck %t/norm_transpose.mlir
// RUN: kiln-opt %t/channel_first.mlir --kiln-differentiate --kiln-fuse | FileCheck %t/channel_first.mlir
// RUN: kiln-opt %t/shared_dropout.mlir --kiln-differentiate --kiln-fuse | FileCheck %t/shared_dropout.mlir
// RUN: kiln-opt %t/norm_rope.mlir --kiln-fuse | FileCheck %t/norm_rope.mlir
// RUN: kiln-opt %t/embedding.mlir --kiln-fuse | FileCheck %t/embedding.mlir
// RUN: kiln-opt %t/embedding.mlir --kiln-emittable=function=embed_norm | FileCheck %t/embedding.mlir --check-prefix=LAUNCHED

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

//--- several_norms.mlir
// CHECK-LABEL: func.func @several_norms(
// CHECK-NEXT: %[[K:.*]]:3 = kiln.kernel "several_norms"(
// CHECK-NOT: kiln.kernel
// CHECK: return %[[K]]#{{[0-2]}}, %[[K]]#{{[0-2]}}, %[[K]]#{{[0-2]}}
// The statistics are the same for all three: one mean, one deviation.
// LAUNCHED-COUNT-2: cu.row_reduce
// LAUNCHED-NOT: cu.row_reduce
// CHECK-LABEL: func.func @several_norms_backward(
// CHECK: kiln.kernel "several_norms_backward"(
// CHECK-NOT: kiln.kernel
func.func @several_norms(%x: tensor<?x128xbf16>, %g: tensor<128xf32>, %b: tensor<128xf32>, %g2: tensor<128xf32>, %b2: tensor<128xf32>)
    -> (tensor<?x128xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>) {
  %0, %m0, %r0 = kiln.layer_norm %x, %g, %b : (tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32>) -> (tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>)
  %1, %m1, %r1 = kiln.layer_norm %x, %g2, %b2 : (tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32>) -> (tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>)
  %2, %m2, %r2 = kiln.layer_norm %x : (tensor<?x128xbf16>) -> (tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>)
  return %0, %1, %2 : tensor<?x128xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>
}

//--- sum_norm.mlir
// CHECK-LABEL: func.func @sum_norm(
// CHECK-NEXT: %[[K:.*]]:2 = kiln.kernel "sum_norm"(
// CHECK-NOT: kiln.kernel
// CHECK: return %[[K]]#{{[01]}}, %[[K]]#{{[01]}}
// All four get the same gradient, each in memory of its own.
// CHECK-LABEL: func.func @sum_norm_backward(
// CHECK-NEXT: kiln.kernel "sum_norm_backward"(
// CHECK-NOT: kiln.kernel
func.func @sum_norm(%w: tensor<?x128xbf16>, %x: tensor<?x128xbf16>, %y: tensor<?x128xbf16>, %z: tensor<?x128xbf16>, %g: tensor<128xf32>, %b: tensor<128xf32>)
    -> (tensor<?x128xbf16>, tensor<?x128xbf16>) {
  %0 = arith.addf %w, %x : tensor<?x128xbf16>
  %1 = arith.addf %0, %y : tensor<?x128xbf16>
  %2 = arith.addf %1, %z : tensor<?x128xbf16>
  %n, %m, %r = kiln.layer_norm %2, %g, %b : (tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32>) -> (tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>)
  return %2, %n : tensor<?x128xbf16>, tensor<?x128xbf16>
}

//--- residual_rms_norm.mlir
// CHECK-LABEL: func.func @residual_rms_norm(
// CHECK-NEXT: %[[K:.*]]:2 = kiln.kernel "residual_rms_norm"(
// CHECK-NOT: kiln.kernel
// CHECK: return %[[K]]#{{[01]}}, %[[K]]#{{[01]}}
// CHECK-LABEL: func.func @residual_rms_norm_backward(
// CHECK: kiln.kernel "residual_rms_norm_backward"(
// CHECK-NOT: kiln.kernel
func.func @residual_rms_norm(%x: tensor<?x1024xbf16>, %r: tensor<?x1024xbf16>, %g: tensor<1024xbf16>)
    -> (tensor<?x1024xbf16>, tensor<?x1024xbf16>) {
  %h = arith.addf %x, %r : tensor<?x1024xbf16>
  %y, %rstd = kiln.rms_norm %h, %g : (tensor<?x1024xbf16>, tensor<1024xbf16>) -> (tensor<?x1024xbf16>, tensor<?xf32>)
  return %h, %y : tensor<?x1024xbf16>, tensor<?x1024xbf16>
}

//--- norm_transpose.mlir
// CHECK-LABEL: func.func @norm_transpose(
// CHECK-NEXT: %[[K:.*]] = kiln.kernel "norm_transpose"(
// CHECK-NOT: kiln.kernel
// CHECK: return %[[K]]
// CHECK-LABEL: func.func @norm_transpose_backward(
// CHECK: kiln.kernel "norm_transpose_backward"(
// CHECK-NOT: kiln.kernel
func.func @norm_transpose(%x: tensor<?x?x64xbf16>, %g: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<?x?x64xbf16> {
  %n, %m, %r = kiln.layer_norm %x, %g, %b : (tensor<?x?x64xbf16>, tensor<64xf32>, tensor<64xf32>) -> (tensor<?x?x64xbf16>, tensor<?x?xf32>, tensor<?x?xf32>)
  %y = kiln.transpose %n [1, 0, 2] : tensor<?x?x64xbf16> -> tensor<?x?x64xbf16>
  return %y : tensor<?x?x64xbf16>
}

//--- channel_first.mlir
// LayerNorm whose result is stored channel-first; the backward loads its gradient so.
// CHECK-LABEL: func.func @channel_first(
// CHECK-NEXT: %[[K:.*]] = kiln.kernel "channel_first"(
// CHECK-NOT: kiln.kernel
// CHECK: return %[[K]]
// CHECK-LABEL: func.func @channel_first_backward(
// CHECK: kiln.kernel "channel_first_backward"(
// CHECK-NOT: kiln.kernel
func.func @channel_first(%x: tensor<?x?x64xbf16>, %g: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<64x?x?xbf16> {
  %n, %m, %r = kiln.layer_norm %x, %g, %b : (tensor<?x?x64xbf16>, tensor<64xf32>, tensor<64xf32>) -> (tensor<?x?x64xbf16>, tensor<?x?xf32>, tensor<?x?xf32>)
  %y = kiln.transpose %n [2, 0, 1] : tensor<?x?x64xbf16> -> tensor<64x?x?xbf16>
  return %y : tensor<64x?x?xbf16>
}

//--- shared_dropout.mlir
// Dropout whose mask all rows of a residue (or all columns) share, behind a gate's bias, onto the
// residual stream.
// CHECK-LABEL: func.func @shared_dropout(
// CHECK-NEXT: %[[K:.*]] = kiln.kernel "shared_dropout"(
// CHECK-NOT: kiln.kernel
// CHECK: return %[[K]]
// CHECK-LABEL: func.func @shared_dropout_backward(
// CHECK: kiln.kernel "shared_dropout_backward"(
// CHECK-NOT: kiln.kernel
func.func @shared_dropout(%x: tensor<?x256x128xbf16>, %bias: tensor<128xf32>, %z: tensor<?x256x128xbf16>, %seed: tensor<i64>, %offset: tensor<i64>) -> tensor<?x256x128xbf16> {
  %xf = arith.extf %x : tensor<?x256x128xbf16> to tensor<?x256x128xf32>
  %b = kiln.broadcast %bias dims [2] like %x : tensor<128xf32>, tensor<?x256x128xbf16> -> tensor<?x256x128xf32>
  %t = arith.addf %xf, %b : tensor<?x256x128xf32>
  %d = kiln.dropout %t, %seed, %offset p 0.25 shared [1] : tensor<?x256x128xf32> -> tensor<?x256x128xf32>
  %zf = arith.extf %z : tensor<?x256x128xbf16> to tensor<?x256x128xf32>
  %s = arith.addf %zf, %d : tensor<?x256x128xf32>
  %y = arith.truncf %s : tensor<?x256x128xf32> to tensor<?x256x128xbf16>
  return %y : tensor<?x256x128xbf16>
}

//--- norm_rope.mlir
// RMSNorm of the heads and rope: the partner of a normalised column is the partner normalised.
// CHECK-LABEL: func.func @norm_rope(
// CHECK-NEXT: %[[K:.*]] = kiln.kernel "norm_rope"(
// CHECK-NOT: kiln.kernel
// CHECK: return %[[K]]
func.func @norm_rope(%x: tensor<?x8x64xbf16>, %g: tensor<64xf32>, %p: tensor<?xi32>) -> tensor<?x8x64xbf16> {
  %n, %r = kiln.rms_norm %x, %g : (tensor<?x8x64xbf16>, tensor<64xf32>) -> (tensor<?x8x64xf32>, tensor<?x8xf32>)
  %y = kiln.rope %n, %p dims [0] half_split : tensor<?x8x64xf32>, tensor<?xi32> -> tensor<?x8x64xbf16>
  return %y : tensor<?x8x64xbf16>
}

//--- embedding.mlir
// An embedding is read where it is used: by a norm, by dropout.
// CHECK-LABEL: func.func @embed_norm(
// CHECK-NEXT: kiln.kernel "embed_norm"(%{{[a-z0-9]*}}, %{{[a-z0-9]*}}, %{{[a-z0-9]*}}) :
// CHECK-NOT: kiln.kernel
// LAUNCHED-COUNT-1: cu.kernel
// LAUNCHED-NOT: cu.kernel
func.func @embed_norm(%t: tensor<50304x1280xbf16>, %i: tensor<?xi32>, %g: tensor<1280xf32>) -> tensor<?x1280xbf16> {
  %e = kiln.gather %t, %i : tensor<50304x1280xbf16>, tensor<?xi32> -> tensor<?x1280xbf16>
  %y, %r = kiln.rms_norm %e, %g : (tensor<?x1280xbf16>, tensor<1280xf32>) -> (tensor<?x1280xbf16>, tensor<?xf32>)
  return %y : tensor<?x1280xbf16>
}
// CHECK-LABEL: func.func @embed_dropout(
// CHECK-NEXT: kiln.kernel "embed_dropout"(
// CHECK-NOT: kiln.kernel
func.func @embed_dropout(%t: tensor<50304x1280xbf16>, %i: tensor<?xi32>, %seed: tensor<i64>, %offset: tensor<i64>) -> tensor<?x1280xbf16> {
  %e = kiln.gather %t, %i {padding_index = 0 : i64} : tensor<50304x1280xbf16>, tensor<?xi32> -> tensor<?x1280xbf16>
  %y = kiln.dropout %e, %seed, %offset p 0.1 : tensor<?x1280xbf16> -> tensor<?x1280xbf16>
  return %y : tensor<?x1280xbf16>
}
