// Layouts, schedules and targets as attributes: readable, verified, editable in the text.
#ifndef KILN_DIALECT_ATTRIBUTES_TD
#define KILN_DIALECT_ATTRIBUTES_TD

include "Kiln.td"

class Kiln_Attr<string cppName, string attrMnemonic> : AttrDef<Kiln_Dialect, cppName> {
  let mnemonic = attrMnemonic;
}

class Kiln_Enum<string cppName, string text, list<I32EnumAttrCase> cases>
    : I32EnumAttr<cppName, text, cases> {
  let cppNamespace = "::kiln::ir";
  let genSpecializedAttr = 0;
}

def Kiln_ReduceKind : Kiln_Enum<"ReduceKind", "how values are combined", [
  I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"mean", 1>,
  I32EnumAttrCase<"max", 2>, I32EnumAttrCase<"min", 3>]>;
def Kiln_ReduceKindAttr : EnumAttr<Kiln_Dialect, Kiln_ReduceKind, "kind">;

def Kiln_Approximate : Kiln_Enum<"Approximate", "which formula of GELU", [
  I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"tanh", 1>]>;
def Kiln_ApproximateAttr : EnumAttr<Kiln_Dialect, Kiln_Approximate, "approximate">;

def Kiln_Pairing : Kiln_Enum<"Pairing", "which columns form a pair", [
  I32EnumAttrCase<"interleaved", 0>, I32EnumAttrCase<"half_split", 1>]>;
def Kiln_PairingAttr : EnumAttr<Kiln_Dialect, Kiln_Pairing, "pairing">;

def Kiln_Causal : Kiln_Enum<"Causal", "which keys come later than a query", [
  I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"first", 1>, I32EnumAttrCase<"last", 2>]>;
def Kiln_CausalAttr : EnumAttr<Kiln_Dialect, Kiln_Causal, "causal"> {
  let assemblyFormat = "`<` $value `>`";
}

def Kiln_Keep : Kiln_Enum<"Keep", "where a block keeps its rows", [
  I32EnumAttrCase<"registers", 0>, I32EnumAttrCase<"shared", 1>,
  I32EnumAttrCase<"global", 2>, I32EnumAttrCase<"ring", 3>]>;
def Kiln_KeepAttr : EnumAttr<Kiln_Dialect, Kiln_Keep, "keep">;
def Kiln_LayoutAttr : Kiln_Attr<"Layout", "layout"> {
  let summary = "How a tensor lies in memory";
  let description = [{
    Strides in elements, one a dimension, -1 = given at run time, 0 = broadcast; and the
    alignment in bytes that every pointer is promised to have. `multiple` promises that strides
    given at run time, but the last dimension's, are multiples of that many elements and not 0.
    Example: `#kiln.layout<strides = [-1, 1], align = 16, multiple = 8>`.
  }];
  let parameters = (ins OptionalArrayRefParameter<"int64_t">:$strides,
                        DefaultValuedParameter<"int64_t", "16">:$align,
                        DefaultValuedParameter<"int64_t", "1">:$multiple);
  let assemblyFormat = [{
    `<` custom<KnownFields>("kLayoutFields") ``
    (`strides` `=` `[` $strides^ `]`)? custom<LayoutNumbers>($align, $multiple) `>`
  }];
  let genVerifyDecl = 1;
}

def Kiln_PairsAttr : Kiln_Attr<"Pairs", "pairs"> {
  let summary = "Pairs of columns";
  let description = [{
    The first `width` columns of a row, an even number, form pairs: neighbours (`interleaved`: 0 and
    1, 2 and 3, ...), or columns of the two halves (`half_split`: 0 and width / 2, ...). Columns
    behind them are their own partners. Example: `#kiln.pairs<half_split, 64>`.
  }];
  let parameters = (ins EnumParameter<Kiln_Pairing>:$kind, "int64_t":$width);
  let assemblyFormat = "`<` $kind `,` $width `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t partnerOf(int64_t column) const;
    /// Of the two columns of a pair, the left one.
    bool isFirst(int64_t column) const { return column < partnerOf(column); }
  }];
}

def Kiln_ScheduleAttr : Kiln_Attr<"Schedule", "schedule"> {
  let summary = "How a kernel runs";
  let description = [{
    A value for each knob of the kernel's family, which declares them (codegen/families). The word of
    a family that is not implied stands first: `#kiln.schedule<family, knob = 4, ...>`.

    Example, of a kernel of rows: `#kiln.schedule<lanes = 16, vector = 8, rows = 4, threads = 128,
    blocks = 8, grid = one_shot, keep = registers, launch = programmatic>`.
  }];
  let parameters = (ins "::kiln::Schedule":$schedule);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Kiln_TargetAttr : Kiln_Attr<"Target", "target"> {
  let summary = "The limits of a GPU architecture";
  let description = [{
    Written on the module as `kiln.target`; what a schedule is verified against.
    Bytes of shared memory a block may ask for and a multiprocessor has, 32-bit registers of a
    multiprocessor, threads and blocks of a multiprocessor, blocks of a cluster.
  }];
  let parameters = (ins StringRefParameter<"architecture">:$arch,
                        "int64_t":$shared_per_block, "int64_t":$shared_per_sm,
                        "int64_t":$registers_per_sm, "int64_t":$threads_per_sm,
                        "int64_t":$blocks_per_sm, "int64_t":$max_cluster);
  let assemblyFormat = "`<` struct(params) `>`";
}

#endif
