// kiln.adamw: its text, what it refuses, its missing backward, its kernel.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/backward.mlir -split-input-file --kiln-differentiate -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir

//--- text.mlir
// CHECK-LABEL: func.func @f
func.func @f(%p: tensor<?xf32>, %g: tensor<?xf16>, %n: tensor<f32>) {
  // CHECK: %new_param, %new_exp_avg, %new_exp_avg_sq = kiln.adamw %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : (tensor<?xf32>, tensor<?xf16>, tensor<?xf32>, tensor<?xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  %0:3 = kiln.adamw %p, %g, %p, %p, %n, %n, %n {beta1 = 0.9} : (tensor<?xf32>, tensor<?xf16>, tensor<?xf32>, tensor<?xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  // CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %copy, %new_ema = kiln.adamw {{.*}} {beta1 = 5.000000e-01 : f64, ema_decay = 7.500000e-01 : f64}
  %1:5 = kiln.adamw %p, %g, %p, %p, %n, %n, %n, %p {beta1 = 0.5, ema_decay = 0.75} : (tensor<?xf32>, tensor<?xf16>, tensor<?xf32>, tensor<?xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xbf16>, tensor<?xf32>)
  return
}

//--- errors.mlir
func.func @rank(%n: tensor<f32>) {
  // expected-error @+1 {{the parameter has rank 0; it needs at least one dimension}}
  %0:3 = kiln.adamw %n, %n, %n, %n, %n, %n, %n : (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
  return
}
// -----
func.func @count(%p: tensor<8xf32>, %n: tensor<f32>) {
  // expected-error @+1 {{has 5 results; 3 are required and one more may follow the first three: the parameter rounded to bf16 or f16}}
  %0:5 = kiln.adamw %p, %p, %p, %p, %n, %n, %n : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xbf16>, tensor<8xf32>)
  return
}
// -----
func.func @ema(%p: tensor<8xf32>, %n: tensor<f32>) {
  // expected-error @+1 {{an operand ema and ema_decay are given together or not at all}}
  %0:3 = kiln.adamw %p, %p, %p, %p, %n, %n, %n {ema_decay = 0.9} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}
// -----
func.func @state(%p: tensor<8xf32>, %m: tensor<8xbf16>, %n: tensor<f32>) {
  // expected-error @+1 {{exp_avg has elements of type 'bf16', it is always f32}}
  %0:3 = kiln.adamw %p, %p, %m, %p, %n, %n, %n : (tensor<8xf32>, tensor<8xf32>, tensor<8xbf16>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}
// -----
func.func @shape(%p: tensor<8xf32>, %g: tensor<4xf32>, %n: tensor<f32>) {
  // expected-error @+1 {{grad has shape [4], the parameter asks for [8]}}
  %0:3 = kiln.adamw %p, %g, %p, %p, %n, %n, %n : (tensor<8xf32>, tensor<4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}
// -----
func.func @shared(%p: tensor<8xf32>, %n: tensor<f32>) {
  // expected-error @+1 {{step has shape [8], a shared number asks for []}}
  %0:3 = kiln.adamw %p, %p, %p, %p, %n, %p, %n : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}
// -----
func.func @copy(%p: tensor<8xf32>, %n: tensor<f32>) {
  // expected-error @+1 {{the rounded parameter has elements of type 'f32'; allowed are bf16 and f16}}
  %0:4 = kiln.adamw %p, %p, %p, %p, %n, %n, %n : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}
// -----
func.func @beta(%p: tensor<8xf32>, %n: tensor<f32>) {
  // expected-error @+1 {{beta2 = 1.000000e+00: it is at least 0 and less than 1}}
  %0:3 = kiln.adamw %p, %p, %p, %p, %n, %n, %n {beta2 = 1.0} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}
// -----
func.func @eps(%p: tensor<8xf32>, %n: tensor<f32>) {
  // expected-error @+1 {{eps = -1.000000e+00: it is finite and not negative}}
  %0:3 = kiln.adamw %p, %p, %p, %p, %n, %n, %n {eps = -1.0} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

//--- backward.mlir
func.func @rows(%p: tensor<?x8xf32>, %n: tensor<f32>) -> tensor<?x8xf32> {
  // expected-error @+1 {{has no gradient: an optimizer's step is not differentiated}}
  %0:3 = kiln.adamw %p, %p, %p, %p, %n, %n, %n : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
  return %0#0 : tensor<?x8xf32>
}
// -----
// expected-error @+1 {{argument 0 is a list of tensors; functions over lists have no backward}}
func.func @lists(%p: tensor<?xf32> {kiln.list}) -> (tensor<?xf32> {kiln.list}) {
  %0 = math.exp %p : tensor<?xf32>
  return %0 : tensor<?xf32>
}

//--- kernel.mlir
// What the learning rate and the step decide is computed once a thread; 1 - beta^t by expm1.
// CHECK-LABEL: kiln_adamw(const i64* chunks, const i64* segments, i64 chunk_count, const float* lr,
// CHECK: const float shared = -(lr_0 / -expm1f(step_0 * -0.105360515f));
// CHECK: const float shared_1 = inverse_sqrt(-expm1f(step_0 * -0.00100050028f));
// CHECK: at.each(
// CHECK-NOT: expm1f
// CHECK: new_p_c[i] = fmaf(shared,
// CHECK: fmaf(sqrtf(fmaf(t * 0.00100000005f, t, p_c[i] * 0.999000013f)), shared_1,
func.func @adamw(%p: tensor<?xf32> {kiln.list, kiln.name = "p"}, %g: tensor<?xf32> {kiln.list, kiln.name = "g"}, %lr: tensor<f32> {kiln.name = "lr"}, %step: tensor<f32> {kiln.name = "step"}, %scale: tensor<f32> {kiln.name = "scale"}) -> (tensor<?xf32> {kiln.list, kiln.name = "new_p"}) {
  %0:3 = kiln.adamw %p, %g, %p, %p, %lr, %step, %scale : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %0#0 : tensor<?xf32>
}
