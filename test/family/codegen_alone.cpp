// Linked with all of kiln_codegen and what it stands on: that it links is the test.
#include "codegen/family/Family.h"

int main() {
  return kiln::family::all().empty() ? 1 : 0;
}
