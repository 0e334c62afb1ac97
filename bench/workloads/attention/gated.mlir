// Attention of an AlphaFold 2 training step with the sigmoid gate behind it: in one kernel, and with the
// gate in a kernel of its own (`_apart`).
func.func @triangle_gated(%q: tensor<?x4x256x32xbf16>, %k: tensor<?x4x256x32xbf16>, %v: tensor<?x4x256x32xbf16>,
    %bias: tensor<1x4x256x256xbf16>, %mask: tensor<?x1x1x256xi1>,
    %gate: tensor<?x4x256x32xbf16>, %gate_bias: tensor<4x32xbf16>)
    -> (tensor<?x4x256x32xbf16>, tensor<?x4x256xf32>) {
  %o, %lse = kiln.attention %q, %k, %v bias %bias mask %mask {scale = 0.17677670 : f32}
      : (tensor<?x4x256x32xbf16>, tensor<?x4x256x32xbf16>, tensor<?x4x256x32xbf16>, tensor<1x4x256x256xbf16>, tensor<?x1x1x256xi1>)
      -> (tensor<?x4x256x32xbf16>, tensor<?x4x256xf32>)
  %same = kiln.broadcast %gate_bias dims [1, 3] like %gate : tensor<4x32xbf16>, tensor<?x4x256x32xbf16> -> tensor<?x4x256x32xbf16>
  %x = arith.addf %gate, %same : tensor<?x4x256x32xbf16>
  %open = kiln.sigmoid %x : tensor<?x4x256x32xbf16> -> tensor<?x4x256x32xbf16>
  %y = arith.mulf %o, %open : tensor<?x4x256x32xbf16>
  return %y, %lse : tensor<?x4x256x32xbf16>, tensor<?x4x256xf32>
}
func.func @triangle_gated_apart(%q: tensor<?x4x256x32xbf16>, %k: tensor<?x4x256x32xbf16>, %v: tensor<?x4x256x32xbf16>,
    %bias: tensor<1x4x256x256xbf16>, %mask: tensor<?x1x1x256xi1>,
    %gate: tensor<?x4x256x32xbf16>, %gate_bias: tensor<4x32xbf16>)
    -> (tensor<?x4x256x32xbf16>, tensor<?x4x256xf32>) {
  %o, %lse = kiln.attention %q, %k, %v bias %bias mask %mask {kiln.cut, scale = 0.17677670 : f32}
      : (tensor<?x4x256x32xbf16>, tensor<?x4x256x32xbf16>, tensor<?x4x256x32xbf16>, tensor<1x4x256x256xbf16>, tensor<?x1x1x256xi1>)
      -> (tensor<?x4x256x32xbf16>, tensor<?x4x256xf32>)
  %same = kiln.broadcast %gate_bias dims [1, 3] like %gate : tensor<4x32xbf16>, tensor<?x4x256x32xbf16> -> tensor<?x4x256x32xbf16>
  %x = arith.addf %gate, %same : tensor<?x4x256x32xbf16>
  %open = kiln.sigmoid %x : tensor<?x4x256x32xbf16> -> tensor<?x4x256x32xbf16>
  %y = arith.mulf %o, %open : tensor<?x4x256x32xbf16>
  return %y, %lse : tensor<?x4x256x32xbf16>, tensor<?x4x256xf32>
}
func.func @msa_row_extra_gated(%q: tensor<?x8x256x8xbf16>, %k: tensor<?x8x256x8xbf16>, %v: tensor<?x8x256x8xbf16>,
    %bias: tensor<1x8x256x256xbf16>, %mask: tensor<?x1x1x256xi1>,
    %gate: tensor<?x8x256x8xbf16>, %gate_bias: tensor<8x8xbf16>)
    -> (tensor<?x8x256x8xbf16>, tensor<?x8x256xf32>) {
  %o, %lse = kiln.attention %q, %k, %v bias %bias mask %mask {scale = 0.35355339 : f32}
      : (tensor<?x8x256x8xbf16>, tensor<?x8x256x8xbf16>, tensor<?x8x256x8xbf16>, tensor<1x8x256x256xbf16>, tensor<?x1x1x256xi1>)
      -> (tensor<?x8x256x8xbf16>, tensor<?x8x256xf32>)
  %same = kiln.broadcast %gate_bias dims [1, 3] like %gate : tensor<8x8xbf16>, tensor<?x8x256x8xbf16> -> tensor<?x8x256x8xbf16>
  %x = arith.addf %gate, %same : tensor<?x8x256x8xbf16>
  %open = kiln.sigmoid %x : tensor<?x8x256x8xbf16> -> tensor<?x8x256x8xbf16>
  %y = arith.mulf %o, %open : tensor<?x8x256x8xbf16>
  return %y, %lse : tensor<?x8x256x8xbf16>, tensor<?x8x256xf32>
}
func.func @msa_row_extra_gated_apart(%q: tensor<?x8x256x8xbf16>, %k: tensor<?x8x256x8xbf16>, %v: tensor<?x8x256x8xbf16>,
    %bias: tensor<1x8x256x256xbf16>, %mask: tensor<?x1x1x256xi1>,
    %gate: tensor<?x8x256x8xbf16>, %gate_bias: tensor<8x8xbf16>)
    -> (tensor<?x8x256x8xbf16>, tensor<?x8x256xf32>) {
  %o, %lse = kiln.attention %q, %k, %v bias %bias mask %mask {kiln.cut, scale = 0.35355339 : f32}
      : (tensor<?x8x256x8xbf16>, tensor<?x8x256x8xbf16>, tensor<?x8x256x8xbf16>, tensor<1x8x256x256xbf16>, tensor<?x1x1x256xi1>)
      -> (tensor<?x8x256x8xbf16>, tensor<?x8x256xf32>)
  %same = kiln.broadcast %gate_bias dims [1, 3] like %gate : tensor<8x8xbf16>, tensor<?x8x256x8xbf16> -> tensor<?x8x256x8xbf16>
  %x = arith.addf %gate, %same : tensor<?x8x256x8xbf16>
  %open = kiln.sigmoid %x : tensor<?x8x256x8xbf16> -> tensor<?x8x256x8xbf16>
  %y = arith.mulf %o, %open : tensor<?x8x256x8xbf16>
  return %y, %lse : tensor<?x8x256x8xbf16>, tensor<?x8x256xf32>
}
func.func @msa_column_gated(%q: tensor<?x8x132x32xbf16>, %k: tensor<?x8x132x32xbf16>, %v: tensor<?x8x132x32xbf16>,
    %mask: tensor<?x1x1x132xi1>,
    %gate: tensor<?x8x132x32xbf16>, %gate_bias: tensor<8x32xbf16>)
    -> (tensor<?x8x132x32xbf16>, tensor<?x8x132xf32>) {
  %o, %lse = kiln.attention %q, %k, %v mask %mask {scale = 0.17677670 : f32}
      : (tensor<?x8x132x32xbf16>, tensor<?x8x132x32xbf16>, tensor<?x8x132x32xbf16>, tensor<?x1x1x132xi1>)
      -> (tensor<?x8x132x32xbf16>, tensor<?x8x132xf32>)
  %same = kiln.broadcast %gate_bias dims [1, 3] like %gate : tensor<8x32xbf16>, tensor<?x8x132x32xbf16> -> tensor<?x8x132x32xbf16>
  %x = arith.addf %gate, %same : tensor<?x8x132x32xbf16>
  %open = kiln.sigmoid %x : tensor<?x8x132x32xbf16> -> tensor<?x8x132x32xbf16>
  %y = arith.mulf %o, %open : tensor<?x8x132x32xbf16>
  return %y, %lse : tensor<?x8x132x32xbf16>, tensor<?x8x132xf32>
}
func.func @msa_column_gated_apart(%q: tensor<?x8x132x32xbf16>, %k: tensor<?x8x132x32xbf16>, %v: tensor<?x8x132x32xbf16>,
    %mask: tensor<?x1x1x132xi1>,
    %gate: tensor<?x8x132x32xbf16>, %gate_bias: tensor<8x32xbf16>)
    -> (tensor<?x8x132x32xbf16>, tensor<?x8x132xf32>) {
  %o, %lse = kiln.attention %q, %k, %v mask %mask {kiln.cut, scale = 0.17677670 : f32}
      : (tensor<?x8x132x32xbf16>, tensor<?x8x132x32xbf16>, tensor<?x8x132x32xbf16>, tensor<?x1x1x132xi1>)
      -> (tensor<?x8x132x32xbf16>, tensor<?x8x132xf32>)
  %same = kiln.broadcast %gate_bias dims [1, 3] like %gate : tensor<8x32xbf16>, tensor<?x8x132x32xbf16> -> tensor<?x8x132x32xbf16>
  %x = arith.addf %gate, %same : tensor<?x8x132x32xbf16>
  %open = kiln.sigmoid %x : tensor<?x8x132x32xbf16> -> tensor<?x8x132x32xbf16>
  %y = arith.mulf %o, %open : tensor<?x8x132x32xbf16>
  return %y, %lse : tensor<?x8x132x32xbf16>, tensor<?x8x132xf32>
}
