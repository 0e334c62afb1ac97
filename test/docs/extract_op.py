"""Writes the op that dialect/README.md adds as an example, so that it can be compiled where the
dialect is as it is: extract_op.py PAGE FOLDER makes FOLDER/L2Norm.td and FOLDER/L2Norm.cpp."""

import pathlib
import re
import sys

page, folder = map(pathlib.Path, sys.argv[1:])
text = page.read_text()


def block(language):
    found = re.search(rf"^( *)```{language}\n(.*?L2Norm.*?)^\1```", text, re.M | re.S)
    return re.sub(rf"^{found[1]}", "", found[2], flags=re.M)


folder.mkdir(parents=True, exist_ok=True)
(folder / "L2Norm.td").write_text('include "Attributes.td"\n'
                                  'include "mlir/IR/BuiltinAttributes.td"\n' + block("tablegen"))
here = '#include "dialect/Kiln.h"\n'
(folder / "L2Norm.cpp").write_text(
    block("cpp").replace(here, here + '#define GET_OP_CLASSES\n#include "L2Norm.h.inc"\n')
    + '#define GET_OP_CLASSES\n#include "L2Norm.cpp.inc"\n')
