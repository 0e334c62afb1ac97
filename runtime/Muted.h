// A scope in which Torch's warnings are not shown. It warns once when a kernel is replaced, and
// often names a wrong one; that is what routing is, and was asked for.
#pragma once

#include <c10/util/Exception.h>

namespace kiln::runtime {

class Muted {
  struct Handler : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  };
  Handler handler;
  const c10::WarningUtils::WarningHandlerGuard guard{&handler};
};

} // namespace kiln::runtime
