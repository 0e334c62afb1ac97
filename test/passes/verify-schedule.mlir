// kiln-verify-schedule: every limit, with the numbers; the target's limits go into the text.
// RUN: split-file %s %t
// RUN: kiln-opt %t/fits.mlir --kiln-verify-schedule | FileCheck %t/fits.mlir
// RUN: kiln-opt %t/sm_86.mlir -split-input-file --kiln-verify-schedule=arch=sm_86 -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/sm_90a.mlir -split-input-file --kiln-verify-schedule -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/attribute.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: not kiln-opt %t/fits.mlir --kiln-verify-schedule=arch=volta 2>&1 | FileCheck %t/fits.mlir --check-prefix=ARCH

//--- fits.mlir
// CHECK: module attributes {kiln.target = #kiln.target<arch = "sm_90a", shared_per_block = 232448, shared_per_sm = 233472, registers_per_sm = 65536, threads_per_sm = 2048, blocks_per_sm = 32, max_cluster = 16>}
// ARCH: error: {{.*}}'volta'
module {
  func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
    %a = kiln.kernel "a"(%x) schedule(#kiln.schedule<lanes = 2, vector = 4, rows = 1, threads = 128, blocks = 16, grid = one_shot, keep = registers, launch = programmatic>) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
    ^bb0(%i: tensor<?x8xf32>):
      %s = math.sin %i : tensor<?x8xf32>
      kiln.yield %s : tensor<?x8xf32>
    }
    return %a : tensor<?x8xf32>
  }
}

//--- sm_86.mlir
// 11 rows of 2432 columns of fp32 in flight.
func.func @shared(%x: tensor<?x2432xf32>) -> tensor<?x2432xf32> {
  // expected-error @+2 {{schedule refused: 1 blocks need 108032 bytes of shared memory, sm_86 has 102400 a multiprocessor}}
  // expected-error @+1 {{schedule refused: 107008 bytes of shared memory asked, sm_86 allows 101376 a block}}
  %a = kiln.kernel "a"(%x) schedule(#kiln.schedule<lanes = 64, vector = 1, rows = 11, threads = 64, blocks = 1, grid = one_shot, keep = shared, launch = plain>) : (tensor<?x2432xf32>) -> tensor<?x2432xf32> {
  ^bb0(%i: tensor<?x2432xf32>):
    %s = math.sin %i : tensor<?x2432xf32>
    kiln.yield %s : tensor<?x2432xf32>
  }
  return %a : tensor<?x2432xf32>
}
// -----
func.func @shared_all(%x: tensor<?x256xf32>) -> tensor<?x256xf32> {
  // expected-error @+1 {{schedule refused: 4 blocks need 135168 bytes of shared memory, sm_86 has 102400 a multiprocessor}}
  %a = kiln.kernel "a"(%x) schedule(#kiln.schedule<lanes = 32, vector = 4, rows = 8, threads = 128, blocks = 4, grid = one_shot, keep = shared, launch = plain>) : (tensor<?x256xf32>) -> tensor<?x256xf32> {
  ^bb0(%i: tensor<?x256xf32>):
    %s = math.sin %i : tensor<?x256xf32>
    kiln.yield %s : tensor<?x256xf32>
  }
  return %a : tensor<?x256xf32>
}
// -----
func.func @threads(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error @+1 {{schedule refused: 4 blocks of 512 threads are 2048 a multiprocessor, sm_86 allows 1536}}
  %a = kiln.kernel "a"(%x) schedule(#kiln.schedule<lanes = 2, vector = 4, rows = 1, threads = 512, blocks = 4, grid = one_shot, keep = registers, launch = plain>) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%i: tensor<?x8xf32>):
    %s = math.sin %i : tensor<?x8xf32>
    kiln.yield %s : tensor<?x8xf32>
  }
  return %a : tensor<?x8xf32>
}
// -----
// Two limits are broken: both are told.
func.func @blocks(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error @+2 {{schedule refused: 17 blocks a multiprocessor asked, sm_86 allows 16}}
  // expected-error @+1 {{schedule refused: launch = programmatic needs sm_90 or newer, the target is sm_86}}
  %a = kiln.kernel "a"(%x) schedule(#kiln.schedule<lanes = 2, vector = 4, rows = 1, threads = 64, blocks = 17, grid = one_shot, keep = registers, launch = programmatic>) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%i: tensor<?x8xf32>):
    %s = math.sin %i : tensor<?x8xf32>
    kiln.yield %s : tensor<?x8xf32>
  }
  return %a : tensor<?x8xf32>
}
// -----
func.func @cluster_old(%x: tensor<?x256xf32>) -> tensor<?xf32> {
  // expected-error @+1 {{schedule refused: cluster = 2 needs sm_90 or newer, the target is sm_86}}
  %a = kiln.kernel "a"(%x) schedule(#kiln.schedule<lanes = 64, vector = 4, rows = 1, threads = 32, blocks = 2, grid = one_shot, keep = registers, launch = plain, cluster = 2>) : (tensor<?x256xf32>) -> tensor<?xf32> {
  ^bb0(%i: tensor<?x256xf32>):
    %s = kiln.reduce sum %i dims [1] : tensor<?x256xf32> -> tensor<?xf32>
    kiln.yield %s : tensor<?xf32>
  }
  return %a : tensor<?xf32>
}

//--- sm_90a.mlir
func.func @cluster(%x: tensor<?x256xf32>) -> tensor<?x256xf32> {
  // expected-error @+2 {{schedule refused: cluster = 2 needs grid = one_shot: what blocks of a cluster hand to each other has room for one tile}}
  // expected-error @+1 {{schedule refused: cluster = 2 is for rows that are reduced; these are not}}
  %a = kiln.kernel "a"(%x) schedule(#kiln.schedule<lanes = 64, vector = 4, rows = 1, threads = 32, blocks = 2, grid = resident, keep = registers, launch = plain, cluster = 2>) : (tensor<?x256xf32>) -> tensor<?x256xf32> {
  ^bb0(%i: tensor<?x256xf32>):
    %s = math.sin %i : tensor<?x256xf32>
    kiln.yield %s : tensor<?x256xf32>
  }
  return %a : tensor<?x256xf32>
}
// -----
func.func @registers(%x: tensor<?x4096xf32>) -> tensor<?x4096xf32> {
  // expected-error-re @+1 {{schedule refused: about {{[0-9]+}} registers a thread needed, 1 blocks of 256 threads leave 255 on sm_90a}}
  %a = kiln.kernel "a"(%x) schedule(#kiln.schedule<lanes = 64, vector = 4, rows = 4, threads = 256, blocks = 1, grid = one_shot, keep = registers, launch = plain>) : (tensor<?x4096xf32>) -> tensor<?x4096xf32> {
  ^bb0(%i: tensor<?x4096xf32>):
    %s = math.sin %i : tensor<?x4096xf32>
    kiln.yield %s : tensor<?x4096xf32>
  }
  return %a : tensor<?x4096xf32>
}
// -----
func.func @vector(%x: tensor<?x6xf32> {kiln.layout = #kiln.layout<strides = [8, 1]>}) -> tensor<?x6xf32> {
  // expected-error @+1 {{schedule refused: vector = 4 does not divide the row width 6}}
  %a = kiln.kernel "a"(%x) schedule(#kiln.schedule<lanes = 1, vector = 4, rows = 1, threads = 64, blocks = 1, grid = one_shot, keep = registers, launch = plain>) : (tensor<?x6xf32>) -> tensor<?x6xf32> {
  ^bb0(%i: tensor<?x6xf32>):
    %s = math.sin %i : tensor<?x6xf32>
    kiln.yield %s : tensor<?x6xf32>
  }
  return %a : tensor<?x6xf32>
}
// -----
func.func @overlapping_vector(%x: tensor<?x6xf32>) -> tensor<?x6xf32> {
  // expected-error @+1 {{schedule refused: vector = 4 does not divide the row width 6: vectors then overlap the ends of rows, which takes rows = 1, not 2}}
  %a = kiln.kernel "a"(%x) schedule(#kiln.schedule<lanes = 1, vector = 4, rows = 2, threads = 64, blocks = 1, grid = one_shot, keep = registers, launch = plain>) : (tensor<?x6xf32>) -> tensor<?x6xf32> {
  ^bb0(%i: tensor<?x6xf32>):
    %s = math.sin %i : tensor<?x6xf32>
    kiln.yield %s : tensor<?x6xf32>
  }
  return %a : tensor<?x6xf32>
}
// -----
func.func @overlapping_columns(%x: tensor<?x6xf32>, %w: tensor<6xf32>) -> tensor<?x6xf32> {
  // expected-error @+2 {{schedule refused: vector = 4 does not divide the row width 6: where something belongs to a column of all rows, that takes grid = resident}}
  // expected-error @+1 {{schedule refused: vector = 4 does not divide the row width 6: values that all rows share are then read from columns = shared}}
  %a = kiln.kernel "a"(%x, %w) schedule(#kiln.schedule<lanes = 1, vector = 4, rows = 1, threads = 64, blocks = 1, grid = one_shot, keep = registers, launch = plain>) : (tensor<?x6xf32>, tensor<6xf32>) -> tensor<?x6xf32> {
  ^bb0(%i: tensor<?x6xf32>, %j: tensor<6xf32>):
    %b = kiln.broadcast %j dims [1] like %i : tensor<6xf32>, tensor<?x6xf32> -> tensor<?x6xf32>
    %s = arith.mulf %i, %b : tensor<?x6xf32>
    kiln.yield %s : tensor<?x6xf32>
  }
  return %a : tensor<?x6xf32>
}
// -----
func.func @overlapping_sums(%x: tensor<?x6xf32>) -> tensor<6xf32> {
  // expected-error @+1 {{schedule refused: vector = 4 does not divide the row width 6: sums of columns then take whole warps for a row, lanes = 2 shares one}}
  %a = kiln.kernel "a"(%x) schedule(#kiln.schedule<lanes = 2, vector = 4, rows = 1, threads = 64, blocks = 1, grid = resident, keep = registers, launch = plain>) : (tensor<?x6xf32>) -> tensor<6xf32> {
  ^bb0(%i: tensor<?x6xf32>):
    %e = math.exp %i : tensor<?x6xf32>
    %s = kiln.reduce sum %e dims [0] : tensor<?x6xf32> -> tensor<6xf32>
    kiln.yield %s : tensor<6xf32>
  }
  return %a : tensor<6xf32>
}
// -----
func.func @idle(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  // expected-error @+1 {{schedule refused: lanes = 128 for rows of 16 vectors leaves whole warps idle; at most 32 are of use}}
  %a = kiln.kernel "a"(%x) schedule(#kiln.schedule<lanes = 128, vector = 4, rows = 1, threads = 128, blocks = 1, grid = one_shot, keep = registers, launch = plain>) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
  ^bb0(%i: tensor<?x64xf32>):
    %s = math.sin %i : tensor<?x64xf32>
    kiln.yield %s : tensor<?x64xf32>
  }
  return %a : tensor<?x64xf32>
}
// -----
func.func @few_lanes(%x: tensor<?x65xf32>) -> tensor<?x65xf32> {
  // expected-error @+1 {{schedule refused: each thread would hold 65 vectors of a row, 64 are allowed; take more lanes}}
  %a = kiln.kernel "a"(%x) schedule(#kiln.schedule<lanes = 1, vector = 1, rows = 1, threads = 64, blocks = 1, grid = one_shot, keep = registers, launch = plain>) : (tensor<?x65xf32>) -> tensor<?x65xf32> {
  ^bb0(%i: tensor<?x65xf32>):
    %s = math.sin %i : tensor<?x65xf32>
    kiln.yield %s : tensor<?x65xf32>
  }
  return %a : tensor<?x65xf32>
}
// -----
func.func @grid(%x: tensor<?x64xf32>) -> tensor<64xf32> {
  // expected-error @+1 {{schedule refused: column sums need grid = resident: each block writes one line of partial sums}}
  %a = kiln.kernel "a"(%x) schedule(#kiln.schedule<lanes = 16, vector = 4, rows = 1, threads = 128, blocks = 1, grid = one_shot, keep = registers, launch = plain>) : (tensor<?x64xf32>) -> tensor<64xf32> {
  ^bb0(%i: tensor<?x64xf32>):
    %s = kiln.reduce sum %i dims [0] : tensor<?x64xf32> -> tensor<64xf32>
    kiln.yield %s : tensor<64xf32>
  }
  return %a : tensor<64xf32>
}
// -----
func.func @missing(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error @+1 {{has no schedule; run kiln-schedule first}}
  %a = kiln.kernel "a"(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%i: tensor<?x8xf32>):
    %s = math.sin %i : tensor<?x8xf32>
    kiln.yield %s : tensor<?x8xf32>
  }
  return %a : tensor<?x8xf32>
}
// -----
func.func @ring_once(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  // expected-error @+1 {{schedule refused: keep = ring needs grid = resident: tiles to loop over}}
  %a = kiln.kernel "a"(%x) schedule(#kiln.schedule<lanes = 16, vector = 4, rows = 1, threads = 128, blocks = 2, grid = one_shot, keep = ring, launch = programmatic, stages = 3>) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
  ^bb0(%i: tensor<?x64xf32>):
    %s = math.sqrt %i : tensor<?x64xf32>
    kiln.yield %s : tensor<?x64xf32>
  }
  return %a : tensor<?x64xf32>
}
// -----
func.func @ring_overlaps(%x: tensor<?x63xf32>) -> tensor<?x63xf32> {
  // expected-error @+1 {{schedule refused: keep = ring needs a vector that divides the row width 63, vector = 2 does not}}
  %a = kiln.kernel "a"(%x) schedule(#kiln.schedule<lanes = 32, vector = 2, rows = 1, threads = 128, blocks = 2, grid = resident, keep = ring, launch = programmatic, stages = 3>) : (tensor<?x63xf32>) -> tensor<?x63xf32> {
  ^bb0(%i: tensor<?x63xf32>):
    %s = math.sqrt %i : tensor<?x63xf32>
    kiln.yield %s : tensor<?x63xf32>
  }
  return %a : tensor<?x63xf32>
}
// -----
func.func @ring_overlaps_widely(%x: tensor<?x63xf32>, %w: tensor<63xf32>) -> tensor<?x63xf32> {
  // expected-error @+1 {{schedule refused: keep = ring has vectors that overlap the ends of rows of at most 16 bytes: vector = 8 of 4 bytes each is 32}}
  %a = kiln.kernel "a"(%x, %w) schedule(#kiln.schedule<lanes = 8, vector = 8, rows = 1, threads = 128, blocks = 2, grid = resident, keep = ring, launch = programmatic, stages = 3>) : (tensor<?x63xf32>, tensor<63xf32>) -> tensor<?x63xf32> {
  ^bb0(%i: tensor<?x63xf32>, %j: tensor<63xf32>):
    %b = kiln.broadcast %j dims [1] like %i : tensor<63xf32>, tensor<?x63xf32> -> tensor<?x63xf32>
    %s = arith.mulf %i, %b : tensor<?x63xf32>
    kiln.yield %s : tensor<?x63xf32>
  }
  return %a : tensor<?x63xf32>
}
// -----
func.func @ring_strided(%x: tensor<?x64xf32> {kiln.layout = #kiln.layout<strides = [128, 1]>}) -> tensor<?x64xf32> {
  // expected-error @+1 {{schedule refused: keep = ring needs inputs whose rows lie one after another}}
  %a = kiln.kernel "a"(%x) schedule(#kiln.schedule<lanes = 16, vector = 4, rows = 1, threads = 128, blocks = 2, grid = resident, keep = ring, launch = programmatic, stages = 3>) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
  ^bb0(%i: tensor<?x64xf32>):
    %s = math.sqrt %i : tensor<?x64xf32>
    kiln.yield %s : tensor<?x64xf32>
  }
  return %a : tensor<?x64xf32>
}
// -----
// Nobody says that x is older than the launch before.
func.func @older(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  // expected-error @+1 {{schedule refused: launch = older_first needs an input that is known to be older than the predecessor; mark the argument with kiln.older if it is}}
  %a = kiln.kernel "a"(%x) schedule(#kiln.schedule<lanes = 16, vector = 4, rows = 1, threads = 128, blocks = 2, grid = one_shot, keep = registers, launch = older_first>) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
  ^bb0(%i: tensor<?x64xf32>):
    %s = math.sqrt %i : tensor<?x64xf32>
    kiln.yield %s : tensor<?x64xf32>
  }
  return %a : tensor<?x64xf32>
}
// -----
func.func @older_looping(%x: tensor<?x64xf32> {kiln.older}) -> tensor<?x64xf32> {
  // expected-error @+1 {{schedule refused: launch = older_first needs grid = one_shot or keep = ring}}
  %a = kiln.kernel "a"(%x) schedule(#kiln.schedule<lanes = 16, vector = 4, rows = 1, threads = 128, blocks = 2, grid = resident, keep = registers, launch = older_first>) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
  ^bb0(%i: tensor<?x64xf32>):
    %s = math.sqrt %i : tensor<?x64xf32>
    kiln.yield %s : tensor<?x64xf32>
  }
  return %a : tensor<?x64xf32>
}

//--- attribute.mlir
// What can be said of a schedule without its kernel.
// expected-error @+1 {{lanes = 3: a row is shared by 1, 2, 4, 8, 16 threads or a multiple of 32 up to 1024}}
module attributes {a = #kiln.schedule<lanes = 3, vector = 1, rows = 1, threads = 96, blocks = 1, grid = one_shot, keep = registers, launch = plain>} {}
// -----
// expected-error @+1 {{vector = 32: a power of two up to 16 is allowed}}
module attributes {a = #kiln.schedule<lanes = 1, vector = 32, rows = 1, threads = 96, blocks = 1, grid = one_shot, keep = registers, launch = plain>} {}
// -----
// expected-error @+1 {{rows = 0: 1 to 16 rows a thread are allowed}}
module attributes {a = #kiln.schedule<lanes = 1, vector = 1, rows = 0, threads = 96, blocks = 1, grid = one_shot, keep = registers, launch = plain>} {}
// -----
// expected-error @+1 {{threads = 1056: a multiple of 32 from 32 to 1024 is allowed}}
module attributes {a = #kiln.schedule<lanes = 1, vector = 1, rows = 1, threads = 1056, blocks = 1, grid = one_shot, keep = registers, launch = plain>} {}
// -----
// expected-error @+1 {{lanes = 64 does not divide threads = 96}}
module attributes {a = #kiln.schedule<lanes = 64, vector = 1, rows = 1, threads = 96, blocks = 1, grid = one_shot, keep = registers, launch = plain>} {}
// -----
// expected-error @+1 {{cluster = 4: 1 or 2 blocks share a row}}
module attributes {a = #kiln.schedule<lanes = 128, vector = 1, rows = 1, threads = 32, blocks = 1, grid = one_shot, keep = registers, launch = plain, cluster = 4>} {}
// -----
// expected-error @+1 {{lanes = 64: all threads of a cluster of 2 blocks share a row, 192 for threads = 96}}
module attributes {a = #kiln.schedule<lanes = 64, vector = 1, rows = 1, threads = 96, blocks = 1, grid = one_shot, keep = registers, launch = plain, cluster = 2>} {}
// -----
// expected-error @+1 {{blocks = 33: 1 to 32 blocks a multiprocessor are allowed}}
module attributes {a = #kiln.schedule<lanes = 1, vector = 1, rows = 1, threads = 96, blocks = 33, grid = one_shot, keep = registers, launch = plain>} {}
// -----
// expected-error @+1 {{unknown knob 'lanse'; there are lanes, vector, rows, threads, blocks, grid, keep, launch, columns, stages, cluster; did you mean 'lanes'?}}
module attributes {a = #kiln.schedule<lanse = 1, vector = 1>} {}
// -----
// expected-error @+1 {{unknown knob 'speed'; there are lanes, vector, rows, threads, blocks, grid, keep, launch, columns, stages, cluster}}
module attributes {a = #kiln.schedule<lanes = 1, speed = 9>} {}
// -----
// expected-error @+1 {{'lanes' is given twice}}
module attributes {a = #kiln.schedule<lanes = 1, lanes = 2>} {}
// -----
// expected-error @+1 {{'register' is no value of 'keep'; there are registers, shared, global, ring; did you mean 'registers'?}}
module attributes {a = #kiln.schedule<lanes = 1, keep = register>} {}
// -----
// expected-error @+1 {{a schedule needs a value of 'rows'}}
module attributes {a = #kiln.schedule<lanes = 1, vector = 1, threads = 96, blocks = 1, grid = one_shot, keep = registers, launch = plain>} {}
// -----
// expected-error @+1 {{-1 is no value of a knob; 0 to 2^31 - 1 are}}
module attributes {a = #kiln.schedule<lanes = -1>} {}
// -----
// expected-error @+1 {{unknown family of kernels 'multi_tensors'; there are rows, multi_tensor, attention; did you mean 'multi_tensor'?}}
module attributes {a = #kiln.schedule<multi_tensors, vector = 1>} {}
// -----
// expected-error @+1 {{chunks = 17: 1 to 16 chunks a block are allowed}}
module attributes {a = #kiln.schedule<multi_tensor, vector = 1, chunks = 17, threads = 96, blocks = 1, launch = plain>} {}
// -----
// expected-error @+1 {{attribute 'kiln.target' must be a #kiln.target}}
module attributes {kiln.target = "sm_90a"} {}
// -----
// expected-error @+1 {{stride -2 is negative; a stride is a number of elements, 0 for a broadcast dimension, -1 for one given at run time}}
func.func private @stride(%x: tensor<2x4xf32> {kiln.layout = #kiln.layout<strides = [-2, 1]>})
// -----
// expected-error @+1 {{alignment 12 is not a power of two of bytes}}
func.func private @align(%x: tensor<2x4xf32> {kiln.layout = #kiln.layout<strides = [4, 1], align = 12>})
// -----
// expected-error @+1 {{strides that are multiples of 0 elements; give a number from 1 on}}
func.func private @multiple(%x: tensor<2x4xf32> {kiln.layout = #kiln.layout<strides = [-1, 1], multiple = 0>})
// -----
// expected-error @+1 {{multiple = 4 without a stride before the last that is given at run time (-1), which is what it is about}}
func.func private @multiple_of_none(%x: tensor<2x4xf32> {kiln.layout = #kiln.layout<strides = [8, -1], multiple = 4>})
// -----
// expected-error @+1 {{argument 0 has rank 2, its layout 1 strides; give one stride a dimension}}
func.func private @rank(%x: tensor<2x4xf32> {kiln.layout = #kiln.layout<strides = [1]>})
// -----
// expected-error @+1 {{attribute 'kiln.layout' must be a #kiln.layout}}
func.func private @layout(%x: tensor<2x4xf32> {kiln.layout = 4})
// -----
// expected-error @+1 {{attribute 'kiln.name' must be a string}}
func.func private @name(%x: tensor<2x4xf32> {kiln.name = 4})
// -----
// expected-error @+1 {{stages = 1: keep = ring has 2 to 16, others have none}}
func.func private @few_stages() attributes {s = #kiln.schedule<lanes = 2, vector = 4, rows = 1, threads = 64, blocks = 1, grid = resident, keep = ring, launch = plain, stages = 1>}
// -----
// expected-error @+1 {{stages = 3: keep = ring has 2 to 16, others have none}}
func.func private @stages_of_nothing() attributes {s = #kiln.schedule<lanes = 2, vector = 4, rows = 1, threads = 64, blocks = 1, grid = resident, keep = shared, launch = plain, stages = 3>}
// -----
// expected-error @+1 {{attribute 'kiln.older' has no value; write it alone}}
func.func private @older(tensor<8xf32> {kiln.older = true})
