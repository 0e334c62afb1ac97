// kiln-verify-schedule of attention: each rule that a schedule breaks, with the numbers.
// RUN: split-file %s %t
// RUN: kiln-opt %t/fits.mlir --kiln-verify-schedule -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/sm_86.mlir -split-input-file --kiln-verify-schedule=arch=sm_86 -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/sm_90a.mlir -split-input-file --kiln-verify-schedule -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/attribute.mlir -split-input-file -verify-diagnostics -o /dev/null

//--- fits.mlir
func.func @forward(%q: tensor<4x?x64xbf16>, %k: tensor<4x?x64xbf16>) -> (tensor<4x?x64xbf16>, tensor<4x?xf32>) {
  %o, %l = kiln.kernel "forward"(%q, %k) schedule(#kiln.schedule<attention, queries = 64, keys = 64, stages = 2, blocks = 1, launch = programmatic>) : (tensor<4x?x64xbf16>, tensor<4x?x64xbf16>) -> (tensor<4x?x64xbf16>, tensor<4x?xf32>) {
  ^bb0(%a: tensor<4x?x64xbf16>, %b: tensor<4x?x64xbf16>):
    %c, %d = kiln.attention %a, %b, %b : (tensor<4x?x64xbf16>, tensor<4x?x64xbf16>, tensor<4x?x64xbf16>) -> (tensor<4x?x64xbf16>, tensor<4x?xf32>)
    kiln.yield %c, %d : tensor<4x?x64xbf16>, tensor<4x?xf32>
  }
  return %o, %l : tensor<4x?x64xbf16>, tensor<4x?xf32>
}
func.func @bias(%do: tensor<4x2x?x8xbf16>, %delta: tensor<4x2x?xf32>, %lse: tensor<4x2x?xf32>, %q: tensor<4x2x?x8xbf16>, %k: tensor<4x2x?x8xbf16>, %b: tensor<1x2x?x?xf32>) -> tensor<1x2x?x?xf32> {
  %r = kiln.kernel "bias"(%do, %delta, %lse, %q, %k, %b) schedule(#kiln.schedule<attention, queries = 64, keys = 64, stages = 1, blocks = 1, launch = plain, groups = 4>) : (tensor<4x2x?x8xbf16>, tensor<4x2x?xf32>, tensor<4x2x?xf32>, tensor<4x2x?x8xbf16>, tensor<4x2x?x8xbf16>, tensor<1x2x?x?xf32>) -> tensor<1x2x?x?xf32> {
  ^bb0(%a: tensor<4x2x?x8xbf16>, %c: tensor<4x2x?xf32>, %d: tensor<4x2x?xf32>, %e: tensor<4x2x?x8xbf16>, %f: tensor<4x2x?x8xbf16>, %g: tensor<1x2x?x?xf32>):
    %h = kiln.attention_backward %a, %c, %d, %e, %f, %f bias %g : (tensor<4x2x?x8xbf16>, tensor<4x2x?xf32>, tensor<4x2x?xf32>, tensor<4x2x?x8xbf16>, tensor<4x2x?x8xbf16>, tensor<4x2x?x8xbf16>, tensor<1x2x?x?xf32>) -> bias tensor<1x2x?x?xf32>
    kiln.yield %h : tensor<1x2x?x?xf32>
  }
  return %r : tensor<1x2x?x?xf32>
}

//--- sm_86.mlir
func.func @shared(%q: tensor<4x?x64xbf16>, %k: tensor<4x?x64xbf16>) -> (tensor<4x?x64xbf16>, tensor<4x?xf32>) {
  // expected-error @+2 {{schedule refused: 165888 bytes for these tiles, sm_86 allows 101376}}
  // expected-error @+1 {{schedule refused: 1 blocks of 165888 bytes of shared memory asked, sm_86 has 102400 a multiprocessor}}
  %o, %l = kiln.kernel "shared"(%q, %k) schedule(#kiln.schedule<attention, queries = 128, keys = 128, stages = 4, blocks = 1, launch = plain>) : (tensor<4x?x64xbf16>, tensor<4x?x64xbf16>) -> (tensor<4x?x64xbf16>, tensor<4x?xf32>) {
  ^bb0(%a: tensor<4x?x64xbf16>, %b: tensor<4x?x64xbf16>):
    %c, %d = kiln.attention %a, %b, %b : (tensor<4x?x64xbf16>, tensor<4x?x64xbf16>, tensor<4x?x64xbf16>) -> (tensor<4x?x64xbf16>, tensor<4x?xf32>)
    kiln.yield %c, %d : tensor<4x?x64xbf16>, tensor<4x?xf32>
  }
  return %o, %l : tensor<4x?x64xbf16>, tensor<4x?xf32>
}
// -----
func.func @blocks(%q: tensor<4x?x64xbf16>, %k: tensor<4x?x64xbf16>) -> (tensor<4x?x64xbf16>, tensor<4x?xf32>) {
  // expected-error @+2 {{schedule refused: 8 blocks of 27648 bytes of shared memory asked, sm_86 has 102400 a multiprocessor}}
  // expected-error @+1 {{schedule refused: about 136 registers a thread needed, 8 blocks of 128 threads leave 64 on sm_86}}
  %o, %l = kiln.kernel "blocks"(%q, %k) schedule(#kiln.schedule<attention, queries = 64, keys = 64, stages = 1, blocks = 8, launch = plain>) : (tensor<4x?x64xbf16>, tensor<4x?x64xbf16>) -> (tensor<4x?x64xbf16>, tensor<4x?xf32>) {
  ^bb0(%a: tensor<4x?x64xbf16>, %b: tensor<4x?x64xbf16>):
    %c, %d = kiln.attention %a, %b, %b : (tensor<4x?x64xbf16>, tensor<4x?x64xbf16>, tensor<4x?x64xbf16>) -> (tensor<4x?x64xbf16>, tensor<4x?xf32>)
    kiln.yield %c, %d : tensor<4x?x64xbf16>, tensor<4x?xf32>
  }
  return %o, %l : tensor<4x?x64xbf16>, tensor<4x?xf32>
}
// -----
func.func @threads(%q: tensor<4x?x64xbf16>, %k: tensor<4x?x64xbf16>) -> (tensor<4x?x64xbf16>, tensor<4x?xf32>) {
  // expected-error @+3 {{schedule refused: 16 blocks of 128 threads asked, sm_86 allows 16 blocks and 1536 threads a multiprocessor}}
  // expected-error @+2 {{schedule refused: 16 blocks of 27648 bytes of shared memory asked, sm_86 has 102400 a multiprocessor}}
  // expected-error @+1 {{schedule refused: about 136 registers a thread needed, 16 blocks of 128 threads leave 32 on sm_86}}
  %o, %l = kiln.kernel "threads"(%q, %k) schedule(#kiln.schedule<attention, queries = 64, keys = 64, stages = 1, blocks = 16, launch = plain>) : (tensor<4x?x64xbf16>, tensor<4x?x64xbf16>) -> (tensor<4x?x64xbf16>, tensor<4x?xf32>) {
  ^bb0(%a: tensor<4x?x64xbf16>, %b: tensor<4x?x64xbf16>):
    %c, %d = kiln.attention %a, %b, %b : (tensor<4x?x64xbf16>, tensor<4x?x64xbf16>, tensor<4x?x64xbf16>) -> (tensor<4x?x64xbf16>, tensor<4x?xf32>)
    kiln.yield %c, %d : tensor<4x?x64xbf16>, tensor<4x?xf32>
  }
  return %o, %l : tensor<4x?x64xbf16>, tensor<4x?xf32>
}
// -----
func.func @launch(%q: tensor<4x?x64xbf16>, %k: tensor<4x?x64xbf16>) -> (tensor<4x?x64xbf16>, tensor<4x?xf32>) {
  // expected-error @+1 {{schedule refused: launch = programmatic needs sm_90 or newer, the target is sm_86}}
  %o, %l = kiln.kernel "launch"(%q, %k) schedule(#kiln.schedule<attention, queries = 64, keys = 64, stages = 1, blocks = 1, launch = programmatic>) : (tensor<4x?x64xbf16>, tensor<4x?x64xbf16>) -> (tensor<4x?x64xbf16>, tensor<4x?xf32>) {
  ^bb0(%a: tensor<4x?x64xbf16>, %b: tensor<4x?x64xbf16>):
    %c, %d = kiln.attention %a, %b, %b : (tensor<4x?x64xbf16>, tensor<4x?x64xbf16>, tensor<4x?x64xbf16>) -> (tensor<4x?x64xbf16>, tensor<4x?xf32>)
    kiln.yield %c, %d : tensor<4x?x64xbf16>, tensor<4x?xf32>
  }
  return %o, %l : tensor<4x?x64xbf16>, tensor<4x?xf32>
}

//--- sm_90a.mlir
func.func @registers(%q: tensor<4x?x128xbf16>, %k: tensor<4x?x128xbf16>) -> (tensor<4x?x128xbf16>, tensor<4x?xf32>) {
  // expected-error @+2 {{schedule refused: 4 blocks of 87040 bytes of shared memory asked, sm_90a has 233472 a multiprocessor}}
  // expected-error @+1 {{schedule refused: about 216 registers a thread needed, 4 blocks of 128 threads leave 128 on sm_90a}}
  %o, %l = kiln.kernel "registers"(%q, %k) schedule(#kiln.schedule<attention, queries = 64, keys = 128, stages = 1, blocks = 4, launch = plain>) : (tensor<4x?x128xbf16>, tensor<4x?x128xbf16>) -> (tensor<4x?x128xbf16>, tensor<4x?xf32>) {
  ^bb0(%a: tensor<4x?x128xbf16>, %b: tensor<4x?x128xbf16>):
    %c, %d = kiln.attention %a, %b, %b : (tensor<4x?x128xbf16>, tensor<4x?x128xbf16>, tensor<4x?x128xbf16>) -> (tensor<4x?x128xbf16>, tensor<4x?xf32>)
    kiln.yield %c, %d : tensor<4x?x128xbf16>, tensor<4x?xf32>
  }
  return %o, %l : tensor<4x?x128xbf16>, tensor<4x?xf32>
}
// -----
func.func @groups(%q: tensor<4x?x64xbf16>, %k: tensor<4x?x64xbf16>) -> (tensor<4x?x64xbf16>, tensor<4x?xf32>) {
  // expected-error @+1 {{schedule refused: groups = 2: the gradient of a bias has groups, and bias = held}}
  %o, %l = kiln.kernel "groups"(%q, %k) schedule(#kiln.schedule<attention, queries = 64, keys = 64, stages = 1, blocks = 1, launch = plain, groups = 2>) : (tensor<4x?x64xbf16>, tensor<4x?x64xbf16>) -> (tensor<4x?x64xbf16>, tensor<4x?xf32>) {
  ^bb0(%a: tensor<4x?x64xbf16>, %b: tensor<4x?x64xbf16>):
    %c, %d = kiln.attention %a, %b, %b : (tensor<4x?x64xbf16>, tensor<4x?x64xbf16>, tensor<4x?x64xbf16>) -> (tensor<4x?x64xbf16>, tensor<4x?xf32>)
    kiln.yield %c, %d : tensor<4x?x64xbf16>, tensor<4x?xf32>
  }
  return %o, %l : tensor<4x?x64xbf16>, tensor<4x?xf32>
}
// -----
func.func @shared_groups(%do: tensor<4x2x?x8xbf16>, %delta: tensor<4x2x?xf32>, %lse: tensor<4x2x?xf32>, %q: tensor<4x2x?x8xbf16>, %k: tensor<4x2x?x8xbf16>, %b: tensor<1x2x?x?xf32>) -> tensor<1x2x?x?xf32> {
  // expected-error @+1 {{schedule refused: groups = 5: 4 heads share a bias}}
  %r = kiln.kernel "shared_groups"(%do, %delta, %lse, %q, %k, %b) schedule(#kiln.schedule<attention, queries = 64, keys = 64, stages = 1, blocks = 1, launch = plain, groups = 5>) : (tensor<4x2x?x8xbf16>, tensor<4x2x?xf32>, tensor<4x2x?xf32>, tensor<4x2x?x8xbf16>, tensor<4x2x?x8xbf16>, tensor<1x2x?x?xf32>) -> tensor<1x2x?x?xf32> {
  ^bb0(%a: tensor<4x2x?x8xbf16>, %c: tensor<4x2x?xf32>, %d: tensor<4x2x?xf32>, %e: tensor<4x2x?x8xbf16>, %f: tensor<4x2x?x8xbf16>, %g: tensor<1x2x?x?xf32>):
    %h = kiln.attention_backward %a, %c, %d, %e, %f, %f bias %g : (tensor<4x2x?x8xbf16>, tensor<4x2x?xf32>, tensor<4x2x?xf32>, tensor<4x2x?x8xbf16>, tensor<4x2x?x8xbf16>, tensor<4x2x?x8xbf16>, tensor<1x2x?x?xf32>) -> bias tensor<1x2x?x?xf32>
    kiln.yield %h : tensor<1x2x?x?xf32>
  }
  return %r : tensor<1x2x?x?xf32>
}
// -----
func.func @stages(%do: tensor<4x2x?x8xbf16>, %delta: tensor<4x2x?xf32>, %lse: tensor<4x2x?xf32>, %q: tensor<4x2x?x8xbf16>, %k: tensor<4x2x?x8xbf16>, %b: tensor<1x2x?x?xf32>) -> tensor<1x2x?x?xf32> {
  // expected-error @+1 {{schedule refused: stages = 2: the gradient of a bias that is read has 1}}
  %r = kiln.kernel "stages"(%do, %delta, %lse, %q, %k, %b) schedule(#kiln.schedule<attention, queries = 64, keys = 64, stages = 2, blocks = 1, launch = plain>) : (tensor<4x2x?x8xbf16>, tensor<4x2x?xf32>, tensor<4x2x?xf32>, tensor<4x2x?x8xbf16>, tensor<4x2x?x8xbf16>, tensor<1x2x?x?xf32>) -> tensor<1x2x?x?xf32> {
  ^bb0(%a: tensor<4x2x?x8xbf16>, %c: tensor<4x2x?xf32>, %d: tensor<4x2x?xf32>, %e: tensor<4x2x?x8xbf16>, %f: tensor<4x2x?x8xbf16>, %g: tensor<1x2x?x?xf32>):
    %h = kiln.attention_backward %a, %c, %d, %e, %f, %f bias %g : (tensor<4x2x?x8xbf16>, tensor<4x2x?xf32>, tensor<4x2x?xf32>, tensor<4x2x?x8xbf16>, tensor<4x2x?x8xbf16>, tensor<4x2x?x8xbf16>, tensor<1x2x?x?xf32>) -> bias tensor<1x2x?x?xf32>
    kiln.yield %h : tensor<1x2x?x?xf32>
  }
  return %r : tensor<1x2x?x?xf32>
}

//--- attribute.mlir
// expected-error @+1 {{queries = 24: a multiple of 16 from 16 to 256 is allowed}}
module attributes {a = #kiln.schedule<attention, queries = 24, keys = 64, stages = 1, blocks = 1, launch = plain>} {}
// -----
// expected-error @+1 {{keys = 272: a multiple of 16 from 16 to 256 is allowed}}
module attributes {a = #kiln.schedule<attention, queries = 64, keys = 272, stages = 1, blocks = 1, launch = plain>} {}
// -----
// expected-error @+1 {{stages = 9: 1 to 8 are allowed}}
module attributes {a = #kiln.schedule<attention, queries = 64, keys = 64, stages = 9, blocks = 1, launch = plain>} {}
// -----
// expected-error @+1 {{blocks = 33: 1 to 32 blocks a multiprocessor are allowed}}
module attributes {a = #kiln.schedule<attention, queries = 64, keys = 64, stages = 1, blocks = 33, launch = plain>} {}
// -----
// expected-error @+1 {{groups = 1025: 1 to 1024 groups of heads are allowed}}
module attributes {a = #kiln.schedule<attention, queries = 64, keys = 64, stages = 1, blocks = 1, launch = plain, groups = 1025>} {}
