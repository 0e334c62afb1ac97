def Kiln_KernelOp : Kiln_Op<"kernel", [IsolatedFromAbove, Pure,
    SingleBlockImplicitTerminator<"YieldOp">,
    DeclareOpInterfaceMethods<KilnOpInterface>]> {
  let summary = "A group of operations that runs as one kernel";
  let description = [{
    Made by `kiln-fuse`, or written by hand to force a grouping. The region sees only the
    inputs. `schedule` says how it runs; without one `kiln-schedule` chooses.

    ```mlir
    %y = kiln.kernel "scale"(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
    ^bb0(%a: tensor<?x8xf32>):
      %b = arith.addf %a, %a : tensor<?x8xf32>
      kiln.yield %b : tensor<?x8xf32>
    }
    ```
  }];
  let arguments = (ins StrAttr:$name, Variadic<Kiln_Tensor>:$inputs,
                       OptionalAttr<Kiln_ScheduleAttr>:$schedule);
  let results = (outs Variadic<Kiln_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $name `(` $inputs `)` (`schedule` `(` $schedule^ `)`)? attr-dict `:`
    functional-type($inputs, $results) $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Kiln_YieldOp : Kiln_Op<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["KernelOp"]>]> {
  let summary = "Ends a kernel's region with its results";
  let arguments = (ins Variadic<Kiln_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{ }]>];
}
