// How the operations that sum rows print themselves.
#include "codegen/exit/Exit.h"
#include "codegen/families/row_sums/RowSum.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cu;

void StridedTermsOp::emit(Emitter& e) {
  e.line("const StridedTerms " + e.declare(getTerms(), "terms") + "{" + e.name(getKept()) + ", " +
         e.name(getSummed()) + ", " + e.expression(getCount()) + "};");
}
void ListRowsOp::emit(Emitter& e) {
  e.location(*this);
  e.line("using Tile = ListTile<" + std::to_string(getThreads()) + " /*threads*/, " +
         std::to_string(getBlockSegments()) + " /*segments*/>;");
  assertBytes(e, *this, "list_rows_bytes<Tile>()");
  e.line("list_rows(Tile(), " + sharedAt(*this) + ", " + e.name(getIndex()) + ", " +
         e.name(getMap()) + ", " + e.expression(getRows()) + ", " + e.expression(getSegments()) +
         ", " + std::to_string(getPadding()) + ", " + e.name(getSpans()) + ", " +
         e.name(getList()) + ");");
}
void ListedTermsOp::emit(Emitter& e) {
  e.line("const ListedTerms " + e.declare(getTerms(), "terms") + "{" + e.name(getSpans()) + ", " +
         e.name(getList()) + ", " + e.name(getMap()) + "};");
}
void SumRowsOp::emit(Emitter& e) {
  e.location(*this);
  e.line("using Tile = SumTile<" + std::to_string(getColumns()) + " /*columns*/, " +
         std::to_string(getLanes()) + " /*lanes*/, " + std::to_string(getVector()) +
         " /*vector*/, " + std::to_string(getBlockUnits()) + " /*units*/, " +
         std::to_string(getParts()) + " /*parts*/, " + std::to_string(getThreads()) +
         " /*threads*/>;");
  assertBytes(e, *this, "sum_rows_bytes<Tile, decltype(" + e.name(getTerms()) + ")>()");
  e.line("sum_rows<" + std::to_string(getAccess()) + ">(Tile(), " + sharedAt(*this) + ", " +
         e.name(getFrom()) + ", " + e.name(getTerms()) + ", " + e.name(getTo()) + ", " +
         e.name(getMap()) + ", " + e.expression(getUnits()) + ");");
}

bool ListRowsOp::stores(Value pointer) {
  return getSpans() == pointer || getList() == pointer;
}
int64_t ListRowsOp::sharedBytes() {
  return row_sums::listBytes();
}
SharedUse ListRowsOp::sharedUse() {
  return SharedUse::epilogue;
}

bool SumRowsOp::stores(Value pointer) {
  return getTo() == pointer;
}
/// Threads that have a unit of their own exchange nothing, unless some have far more terms.
int64_t SumRowsOp::sharedBytes() {
  bool alike = isa<StridedTermsOp>(getTerms().getDefiningOp());
  return getBlockUnits() > 1 && alike ? 0 : getThreads() * getVector() * 4;
}
SharedUse SumRowsOp::sharedUse() {
  return SharedUse::epilogue;
}
