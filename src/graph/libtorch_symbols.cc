// Symbols by libtorch, which does not tell the callers of inlined functions.
#include <torch/csrc/profiler/unwind/unwind.h>

#include <exception>

#include "graph/symbols.h"

namespace strata::graph {

Symbol symbol_of(const void* address) {
  Symbol symbol;
  try {
    // As a return address, of which it takes the instruction before.
    auto* const behind = const_cast<char*>(static_cast<const char*>(address) + 1);
    const std::vector<torch::unwind::Frame> frames =
        torch::unwind::symbolize({behind}, torch::unwind::Mode::fast);
    if (frames.empty()) return symbol;
    const torch::unwind::Frame& frame = frames[0];
    if (frame.funcname != "??") symbol.function = demangled(frame.funcname.c_str());
    // Without debug information "file" is the library, and "line" is an address in it.
    const auto library = torch::unwind::libraryFor(behind);
    const bool has_line = !library || frame.filename != library->first;
    if (has_line && frame.filename != "??" && !is_library_file(frame.filename)) {
      symbol.lines.push_back({.function = symbol.function,
                              .file = frame.filename,
                              .line = static_cast<int>(frame.lineno)});
    }
  } catch (const std::exception&) {  // debug information that it cannot read
  }
  return symbol;
}

}  // namespace strata::graph
