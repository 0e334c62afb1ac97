// Any text given as MLIR: either a module or an Error(input), never a crash. What parses is also
// compiled up to CUDA text, so that passes and schedules meet odd but valid modules; of names and
// places nothing gets into that text that would end a comment or control a terminal.
#include "kiln/kiln.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    auto module = kiln::Module::parse(text, "fuzz.mlir");
    kiln::CompileOptions options;
    options.until = kiln::Stage::cuda;
    for (const std::string& function : module.functions())
      for (bool backward : {false, true}) {
        options.function = function;
        options.backward = backward;
        const kiln::Program program = kiln::Program::compile(module, options);
        const std::string& cuda = program.text(kiln::Stage::cuda);
        if (kiln::printable(cuda, true) != cuda)
          std::abort();
      }
  } catch (const kiln::Error& error) {
    const std::string message = error.what();
    if (kiln::printable(message, true) != message)
      std::abort();
    if (error.kind() != kiln::ErrorKind::input && error.kind() != kiln::ErrorKind::infeasible)
      std::abort(); // text alone cannot cause any other kind
  }
  return 0;
}
