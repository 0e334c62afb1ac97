// Kernels of attention: how kiln-fuse divides a function into them, and what kernels written by hand
// may not hold.
// RUN: split-file %s %t
// RUN: kiln-opt %t/fuse.mlir -split-input-file --kiln-fuse | FileCheck %t/fuse.mlir
// RUN: kiln-opt %t/refused.mlir -split-input-file --kiln-schedule -verify-diagnostics -o /dev/null

//--- fuse.mlir
// Gradients of queries, of keys and values together, and of the bias are kernels of their own; the
// output's gradient is converted before, and roundings of results are in their kernels.
// CHECK-LABEL: func.func @all_gradients
// CHECK: %[[DO:.*]] = kiln.kernel {{.*}} -> tensor<2x?x64xbf16> {
// CHECK: arith.truncf
// CHECK: kiln.kernel {{.*}}(%[[DO]], {{.*}} -> tensor<2x?x64xbf16> {
// CHECK: kiln.attention_backward {{.*}} -> query tensor<2x?x64xf32>{{$}}
// CHECK-NEXT: arith.truncf
// CHECK-NEXT: kiln.yield
// CHECK: kiln.kernel {{.*}}(%[[DO]], {{.*}} -> (tensor<2x?x64xf32>, tensor<2x?x64xf32>) {
// CHECK: kiln.attention_backward {{.*}} -> key tensor<2x?x64xf32> value tensor<2x?x64xf32>
// CHECK: kiln.kernel {{.*}}(%[[DO]], {{.*}} -> tensor<2x1x1xf32> {
// CHECK: kiln.attention_backward {{.*}} -> bias tensor<2x1x1xf32>
func.func @all_gradients(%do: tensor<2x?x64xf32>, %delta: tensor<2x?xf32>, %lse: tensor<2x?xf32>, %q: tensor<2x?x64xbf16>, %k: tensor<2x?x64xbf16>, %b: tensor<2x1x1xf32>) -> (tensor<2x?x64xbf16>, tensor<2x?x64xf32>, tensor<2x?x64xf32>, tensor<2x1x1xf32>) {
  %dq, %dk, %dv, %db = kiln.attention_backward %do, %delta, %lse, %q, %k, %k bias %b
      : (tensor<2x?x64xf32>, tensor<2x?xf32>, tensor<2x?xf32>, tensor<2x?x64xbf16>, tensor<2x?x64xbf16>, tensor<2x?x64xbf16>, tensor<2x1x1xf32>)
     -> query tensor<2x?x64xf32> key tensor<2x?x64xf32> value tensor<2x?x64xf32> bias tensor<2x1x1xf32>
  %r = arith.truncf %dq : tensor<2x?x64xf32> to tensor<2x?x64xbf16>
  return %r, %dk, %dv, %db : tensor<2x?x64xbf16>, tensor<2x?x64xf32>, tensor<2x?x64xf32>, tensor<2x1x1xf32>
}
// -----
// The gradient of a bias that heads share joins those of keys and values where rows are narrow and
// queries few, and all are seen.
// CHECK-LABEL: func.func @sums
// CHECK: kiln.attention_backward {{.*}} -> query tensor<?x2x72x32xf32> key tensor<?x2x72x32xf32> value tensor<?x2x72x32xf32> bias tensor<1x2x72x72xf32>
// CHECK-LABEL: func.func @sums_of_some
// CHECK: kiln.attention_backward {{.*}} -> query tensor<?x2x72x32xf32>{{$}}
// CHECK: kiln.attention_backward {{.*}} -> key tensor<?x2x72x32xf32> value tensor<?x2x72x32xf32>{{$}}
// CHECK: kiln.attention_backward {{.*}} -> bias tensor<1x2x72x72xf32>
func.func @sums(%do: tensor<?x2x72x32xbf16>, %delta: tensor<?x2x72xf32>, %lse: tensor<?x2x72xf32>, %q: tensor<?x2x72x32xbf16>, %b: tensor<1x2x72x72xbf16>) -> (tensor<?x2x72x32xf32>, tensor<?x2x72x32xf32>, tensor<?x2x72x32xf32>, tensor<1x2x72x72xf32>) {
  %dq, %dk, %dv, %db = kiln.attention_backward %do, %delta, %lse, %q, %q, %q bias %b
      : (tensor<?x2x72x32xbf16>, tensor<?x2x72xf32>, tensor<?x2x72xf32>, tensor<?x2x72x32xbf16>, tensor<?x2x72x32xbf16>, tensor<?x2x72x32xbf16>, tensor<1x2x72x72xbf16>)
     -> query tensor<?x2x72x32xf32> key tensor<?x2x72x32xf32> value tensor<?x2x72x32xf32> bias tensor<1x2x72x72xf32>
  return %dq, %dk, %dv, %db : tensor<?x2x72x32xf32>, tensor<?x2x72x32xf32>, tensor<?x2x72x32xf32>, tensor<1x2x72x72xf32>
}
func.func @sums_of_some(%do: tensor<?x2x72x32xbf16>, %delta: tensor<?x2x72xf32>, %lse: tensor<?x2x72xf32>, %q: tensor<?x2x72x32xbf16>, %b: tensor<1x2x72x72xbf16>) -> (tensor<?x2x72x32xf32>, tensor<?x2x72x32xf32>, tensor<?x2x72x32xf32>, tensor<1x2x72x72xf32>) {
  %dq, %dk, %dv, %db = kiln.attention_backward %do, %delta, %lse, %q, %q, %q bias %b {causal = #kiln.causal<last>}
      : (tensor<?x2x72x32xbf16>, tensor<?x2x72xf32>, tensor<?x2x72xf32>, tensor<?x2x72x32xbf16>, tensor<?x2x72x32xbf16>, tensor<?x2x72x32xbf16>, tensor<1x2x72x72xbf16>)
     -> query tensor<?x2x72x32xf32> key tensor<?x2x72x32xf32> value tensor<?x2x72x32xf32> bias tensor<1x2x72x72xf32>
  return %dq, %dk, %dv, %db : tensor<?x2x72x32xf32>, tensor<?x2x72x32xf32>, tensor<?x2x72x32xf32>, tensor<1x2x72x72xf32>
}
// -----
// Two gradients of wide rows do not fit a thread's registers.
// CHECK-LABEL: func.func @wide
// CHECK: kiln.attention_backward {{.*}} -> key tensor<2x?x136xf32>{{$}}
// CHECK: kiln.attention_backward {{.*}} -> value tensor<2x?x136xf32>{{$}}
func.func @wide(%do: tensor<2x?x136xf16>, %delta: tensor<2x?xf32>, %lse: tensor<2x?xf32>, %q: tensor<2x?x136xf16>, %k: tensor<2x?x136xf16>) -> (tensor<2x?x136xf32>, tensor<2x?x136xf32>) {
  %dk, %dv = kiln.attention_backward %do, %delta, %lse, %q, %k, %k : (tensor<2x?x136xf16>, tensor<2x?xf32>, tensor<2x?xf32>, tensor<2x?x136xf16>, tensor<2x?x136xf16>, tensor<2x?x136xf16>) -> key tensor<2x?x136xf32> value tensor<2x?x136xf32>
  return %dk, %dv : tensor<2x?x136xf32>, tensor<2x?x136xf32>
}
// -----
// In fp32 they are twice as wide.
// CHECK-LABEL: func.func @wide_fp32
// CHECK: kiln.attention_backward {{.*}} -> key tensor<2x?x72xf32>{{$}}
// CHECK: kiln.attention_backward {{.*}} -> value tensor<2x?x72xf32>{{$}}
func.func @wide_fp32(%do: tensor<2x?x72xf32>, %delta: tensor<2x?xf32>, %lse: tensor<2x?xf32>, %q: tensor<2x?x72xf32>, %k: tensor<2x?x72xf32>) -> (tensor<2x?x72xf32>, tensor<2x?x72xf32>) {
  %dk, %dv = kiln.attention_backward %do, %delta, %lse, %q, %k, %k : (tensor<2x?x72xf32>, tensor<2x?xf32>, tensor<2x?xf32>, tensor<2x?x72xf32>, tensor<2x?x72xf32>, tensor<2x?x72xf32>) -> key tensor<2x?x72xf32> value tensor<2x?x72xf32>
  return %dk, %dv : tensor<2x?x72xf32>, tensor<2x?x72xf32>
}
// -----
// What stands before is a kernel of rows; elementwise math behind is in attention's kernel.
// CHECK-LABEL: func.func @gated
// CHECK: %[[Q:.*]] = kiln.kernel
// CHECK: arith.mulf
// CHECK: kiln.kernel {{.*}}(%[[Q]], %{{.*}}, %{{.*}}) :
// CHECK-NEXT: ^bb0
// CHECK-NEXT: kiln.attention
// CHECK-NEXT: kiln.sigmoid
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: kiln.yield
// CHECK-NOT: kiln.kernel
// CHECK: return
func.func @gated(%x: tensor<2x?x8xf32>, %k: tensor<2x?x8xf32>, %g: tensor<2x?x8xf32>) -> (tensor<2x?x8xf32>, tensor<2x?xf32>) {
  %q = arith.mulf %x, %x : tensor<2x?x8xf32>
  %o, %lse = kiln.attention %q, %k, %k : (tensor<2x?x8xf32>, tensor<2x?x8xf32>, tensor<2x?x8xf32>) -> (tensor<2x?x8xf32>, tensor<2x?xf32>)
  %s = kiln.sigmoid %g : tensor<2x?x8xf32> -> tensor<2x?x8xf32>
  %y = arith.mulf %o, %s : tensor<2x?x8xf32>
  return %y, %lse : tensor<2x?x8xf32>, tensor<2x?xf32>
}
// -----
// An output that the function returns too is stored beside what is computed of it, rows that lie
// before heads in their order.
// CHECK-LABEL: func.func @turned
// CHECK: kiln.kernel {{.*}} -> (tensor<?x2x?x8xbf16>, tensor<?x2x?xf32>, tensor<?x?x2x8xbf16>) {
// CHECK: kiln.attention
// CHECK: kiln.transpose
// CHECK: arith.addf
// CHECK-NOT: kiln.kernel
// CHECK: return
func.func @turned(%q: tensor<?x2x?x8xbf16>, %r: tensor<?x?x2x8xbf16>) -> (tensor<?x2x?x8xbf16>, tensor<?x?x2x8xbf16>, tensor<?x2x?xf32>) {
  %o, %lse = kiln.attention %q, %q, %q : (tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>) -> (tensor<?x2x?x8xbf16>, tensor<?x2x?xf32>)
  %t = kiln.transpose %o [0, 2, 1, 3] : tensor<?x2x?x8xbf16> -> tensor<?x?x2x8xbf16>
  %y = arith.addf %t, %r : tensor<?x?x2x8xbf16>
  return %o, %y, %lse : tensor<?x2x?x8xbf16>, tensor<?x?x2x8xbf16>, tensor<?x2x?xf32>
}
// -----
// Rows are reduced, and columns paired, by kernels of rows.
// CHECK-LABEL: func.func @normalized
// CHECK: kiln.attention
// CHECK-NEXT: kiln.yield
// CHECK: kiln.kernel
// CHECK: kiln.rms_norm
func.func @normalized(%q: tensor<2x?x8xf32>, %w: tensor<8xf32>) -> (tensor<2x?x8xf32>, tensor<2x?xf32>) {
  %o, %lse = kiln.attention %q, %q, %q : (tensor<2x?x8xf32>, tensor<2x?x8xf32>, tensor<2x?x8xf32>) -> (tensor<2x?x8xf32>, tensor<2x?xf32>)
  %y, %r = kiln.rms_norm %o, %w : (tensor<2x?x8xf32>, tensor<8xf32>) -> (tensor<2x?x8xf32>, tensor<2x?xf32>)
  return %y, %lse : tensor<2x?x8xf32>, tensor<2x?xf32>
}
// -----
// Rows of 8 with a bias have registers for one tensor more.
// CHECK-LABEL: func.func @narrow
// CHECK: kiln.attention
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: kiln.yield
// CHECK: kiln.kernel
// CHECK: arith.addf
func.func @narrow(%q: tensor<2x?x8xbf16>, %b: tensor<2x?x?xbf16>, %g: tensor<2x?x8xbf16>, %r: tensor<2x?x8xbf16>) -> (tensor<2x?x8xbf16>, tensor<2x?xf32>) {
  %o, %lse = kiln.attention %q, %q, %q bias %b : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x?xbf16>) -> (tensor<2x?x8xbf16>, tensor<2x?xf32>)
  %m = arith.mulf %o, %g : tensor<2x?x8xbf16>
  %y = arith.addf %m, %r : tensor<2x?x8xbf16>
  return %y, %lse : tensor<2x?x8xbf16>, tensor<2x?xf32>
}
// -----
// CHECK-LABEL: func.func @asked
// CHECK: kiln.attention
// CHECK-NEXT: kiln.yield
// CHECK: kiln.kernel
// CHECK: math.exp
func.func @asked(%q: tensor<2x?x8xf32>) -> (tensor<2x?x8xf32>, tensor<2x?xf32>) {
  %o, %lse = kiln.attention %q, %q, %q {kiln.cut} : (tensor<2x?x8xf32>, tensor<2x?x8xf32>, tensor<2x?x8xf32>) -> (tensor<2x?x8xf32>, tensor<2x?xf32>)
  %y = math.exp %o : tensor<2x?x8xf32>
  return %y, %lse : tensor<2x?x8xf32>, tensor<2x?xf32>
}

//--- refused.mlir
func.func @two(%q: tensor<2x?x8xf32>) -> (tensor<2x?x8xf32>, tensor<2x?x8xf32>) {
  // expected-note @+1 {{in kernel 'two'}}
  %r:2 = kiln.kernel "two"(%q) : (tensor<2x?x8xf32>) -> (tensor<2x?x8xf32>, tensor<2x?x8xf32>) {
  ^bb0(%a: tensor<2x?x8xf32>):
    %o, %l = kiln.attention %a, %a, %a : (tensor<2x?x8xf32>, tensor<2x?x8xf32>, tensor<2x?x8xf32>) -> (tensor<2x?x8xf32>, tensor<2x?xf32>)
    // expected-error @+1 {{stands in a kernel of attention, which computes one attention and elementwise math of its output; kiln-fuse divides what is more}}
    %p, %m = kiln.attention %a, %a, %a : (tensor<2x?x8xf32>, tensor<2x?x8xf32>, tensor<2x?x8xf32>) -> (tensor<2x?x8xf32>, tensor<2x?xf32>)
    kiln.yield %o, %p : tensor<2x?x8xf32>, tensor<2x?x8xf32>
  }
  return %r#0, %r#1 : tensor<2x?x8xf32>, tensor<2x?x8xf32>
}
// -----
func.func @mixed(%do: tensor<2x?x8xf32>, %n: tensor<2x?xf32>, %k: tensor<2x?x8xf32>) -> (tensor<2x?x8xf32>, tensor<2x?x8xf32>) {
  // expected-note @+1 {{in kernel 'mixed'}}
  %r:2 = kiln.kernel "mixed"(%do, %n, %k) : (tensor<2x?x8xf32>, tensor<2x?xf32>, tensor<2x?x8xf32>) -> (tensor<2x?x8xf32>, tensor<2x?x8xf32>) {
  ^bb0(%a: tensor<2x?x8xf32>, %b: tensor<2x?xf32>, %c: tensor<2x?x8xf32>):
    // expected-error @+1 {{asks for gradients that are kernels of their own: of queries, of keys and values, of the bias; kiln-fuse divides them}}
    %dq, %dk = kiln.attention_backward %a, %b, %b, %c, %c, %c : (tensor<2x?x8xf32>, tensor<2x?xf32>, tensor<2x?xf32>, tensor<2x?x8xf32>, tensor<2x?x8xf32>, tensor<2x?x8xf32>) -> query tensor<2x?x8xf32> key tensor<2x?x8xf32>
    kiln.yield %dq, %dk : tensor<2x?x8xf32>, tensor<2x?x8xf32>
  }
  return %r#0, %r#1 : tensor<2x?x8xf32>, tensor<2x?x8xf32>
}
// -----
func.func @converted(%do: tensor<2x?x8xf32>, %n: tensor<2x?xf32>, %k: tensor<2x?x8xf16>) -> tensor<2x?x8xf32> {
  // expected-note @+1 {{in kernel 'converted'}}
  %r = kiln.kernel "converted"(%do, %n, %k) : (tensor<2x?x8xf32>, tensor<2x?xf32>, tensor<2x?x8xf16>) -> tensor<2x?x8xf32> {
  ^bb0(%a: tensor<2x?x8xf32>, %b: tensor<2x?xf32>, %c: tensor<2x?x8xf16>):
    // expected-error @+1 {{has an output's gradient of another type than the query; kiln-fuse converts it}}
    %dq = kiln.attention_backward %a, %b, %b, %c, %c, %c : (tensor<2x?x8xf32>, tensor<2x?xf32>, tensor<2x?xf32>, tensor<2x?x8xf16>, tensor<2x?x8xf16>, tensor<2x?x8xf16>) -> query tensor<2x?x8xf32>
    kiln.yield %dq : tensor<2x?x8xf32>
  }
  return %r : tensor<2x?x8xf32>
}
// -----
func.func @scaled(%q: tensor<2x?x8xf32>) -> tensor<2x?x8xf32> {
  // expected-note @+1 {{in kernel 'scaled'}}
  %r = kiln.kernel "scaled"(%q) : (tensor<2x?x8xf32>) -> tensor<2x?x8xf32> {
  ^bb0(%a: tensor<2x?x8xf32>):
    %b = arith.mulf %a, %a : tensor<2x?x8xf32>
    // expected-error @+1 {{reads what its kernel computes; kiln-fuse stores it before}}
    %o, %l = kiln.attention %b, %a, %a : (tensor<2x?x8xf32>, tensor<2x?x8xf32>, tensor<2x?x8xf32>) -> (tensor<2x?x8xf32>, tensor<2x?xf32>)
    kiln.yield %o : tensor<2x?x8xf32>
  }
  return %r : tensor<2x?x8xf32>
}
// -----
func.func @used_twice(%q: tensor<2x?x8xf16>) -> (tensor<2x?x8xf32>, tensor<2x?xf16>, tensor<2x?xf32>) {
  // expected-note @+1 {{in kernel 'used_twice'}}
  %r:3 = kiln.kernel "used_twice"(%q) : (tensor<2x?x8xf16>) -> (tensor<2x?x8xf32>, tensor<2x?xf16>, tensor<2x?xf32>) {
  ^bb0(%a: tensor<2x?x8xf16>):
    // expected-error @+1 {{has a result that is used twice}}
    %o, %l = kiln.attention %a, %a, %a : (tensor<2x?x8xf16>, tensor<2x?x8xf16>, tensor<2x?x8xf16>) -> (tensor<2x?x8xf32>, tensor<2x?xf32>)
    %b = arith.truncf %l : tensor<2x?xf32> to tensor<2x?xf16>
    kiln.yield %o, %b, %l : tensor<2x?x8xf32>, tensor<2x?xf16>, tensor<2x?xf32>
  }
  return %r#0, %r#1, %r#2 : tensor<2x?x8xf32>, tensor<2x?xf16>, tensor<2x?xf32>
}
// -----
func.func @reduced(%q: tensor<2x?x8xf32>) -> (tensor<2x?xf32>, tensor<2x?xf32>) {
  // expected-note @+1 {{in kernel 'reduced'}}
  %r:2 = kiln.kernel "reduced"(%q) : (tensor<2x?x8xf32>) -> (tensor<2x?xf32>, tensor<2x?xf32>) {
  ^bb0(%a: tensor<2x?x8xf32>):
    %o, %l = kiln.attention %a, %a, %a : (tensor<2x?x8xf32>, tensor<2x?x8xf32>, tensor<2x?x8xf32>) -> (tensor<2x?x8xf32>, tensor<2x?xf32>)
    // expected-error @+1 {{is no elementwise math, as attention's output is taken by}}
    %s = kiln.reduce sum %o dims [2] : tensor<2x?x8xf32> -> tensor<2x?xf32>
    kiln.yield %s, %l : tensor<2x?xf32>, tensor<2x?xf32>
  }
  return %r#0, %r#1 : tensor<2x?xf32>, tensor<2x?xf32>
}
// -----
func.func @paired(%q: tensor<2x?x8xf32>) -> (tensor<2x?x8xf32>, tensor<2x?xf32>) {
  // expected-note @+1 {{in kernel 'paired'}}
  %r:2 = kiln.kernel "paired"(%q) : (tensor<2x?x8xf32>) -> (tensor<2x?x8xf32>, tensor<2x?xf32>) {
  ^bb0(%a: tensor<2x?x8xf32>):
    // expected-error @+1 {{has an output that is taken at the other column of a pair; an epilogue takes each element by itself}}
    %o, %l = kiln.attention %a, %a, %a : (tensor<2x?x8xf32>, tensor<2x?x8xf32>, tensor<2x?x8xf32>) -> (tensor<2x?x8xf32>, tensor<2x?xf32>)
    %p = kiln.partner %o pairs <half_split, 8> : tensor<2x?x8xf32> -> tensor<2x?x8xf32>
    kiln.yield %p, %l : tensor<2x?x8xf32>, tensor<2x?xf32>
  }
  return %r#0, %r#1 : tensor<2x?x8xf32>, tensor<2x?xf32>
}
// -----
func.func @two_orders(%q: tensor<2x2x?x8xf32>) -> (tensor<2x2x?x8xf32>, tensor<2x2x?xf32>) {
  // expected-note @+1 {{in kernel 'two_orders'}}
  %r:2 = kiln.kernel "two_orders"(%q) : (tensor<2x2x?x8xf32>) -> (tensor<2x2x?x8xf32>, tensor<2x2x?xf32>) {
  ^bb0(%a: tensor<2x2x?x8xf32>):
    // expected-error @+1 {{has an output that is repeated, or taken in two orders}}
    %o, %l = kiln.attention %a, %a, %a : (tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>) -> (tensor<2x2x?x8xf32>, tensor<2x2x?xf32>)
    %t = kiln.transpose %o [1, 0, 2, 3] : tensor<2x2x?x8xf32> -> tensor<2x2x?x8xf32>
    %y = arith.addf %o, %t : tensor<2x2x?x8xf32>
    kiln.yield %y, %l : tensor<2x2x?x8xf32>, tensor<2x2x?xf32>
  }
  return %r#0, %r#1 : tensor<2x2x?x8xf32>, tensor<2x2x?xf32>
}
// -----
// A kernel stores all that its operation gives.
func.func @unread(%q: tensor<2x?x8xf32>) -> tensor<2x?x8xf32> {
  // expected-note @+1 {{in kernel 'unread'}}
  %r = kiln.kernel "unread"(%q) : (tensor<2x?x8xf32>) -> tensor<2x?x8xf32> {
  ^bb0(%a: tensor<2x?x8xf32>):
    // expected-error @+1 {{has a result that nothing reads, and its kernel stores all}}
    %o, %lse = kiln.attention %a, %a, %a : (tensor<2x?x8xf32>, tensor<2x?x8xf32>, tensor<2x?x8xf32>) -> (tensor<2x?x8xf32>, tensor<2x?xf32>)
    kiln.yield %o : tensor<2x?x8xf32>
  }
  return %r : tensor<2x?x8xf32>
}
