// An unknown architecture: what was asked and what is known; no exception leaves a pass.
// RUN: not kiln-opt %s --kiln-emittable=arch=sm_70 2>&1 | FileCheck %s --check-prefix=OLD
// RUN: not kiln-opt %s --kiln-emittable=arch= 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not kiln-opt %s --kiln-fuse --kiln-verify-schedule=arch=hopper 2>&1 | FileCheck %s --check-prefix=WORD

// OLD: arch.mlir:{{[0-9]+:[0-9]+}}: error: {{.*}}'sm_70'{{.*}}sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120
// NONE: error: {{.*}}''{{.*}}sm_80
// WORD: error: {{.*}}'hopper'{{.*}}sm_90a
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = math.exp %x : tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
