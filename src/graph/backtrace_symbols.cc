// Symbols by GCC's libbacktrace, which knows inlined functions.
#include <backtrace.h>

#include <cstdint>

#include "graph/symbols.h"

namespace strata::graph {
namespace {

void ignore_error(void* /*data*/, const char* /*message*/, int /*number*/) {}

int add_line(void* data, uintptr_t /*address*/, const char* file, int line, const char* function) {
  if (file != nullptr && line > 0) {
    static_cast<Symbol*>(data)->lines.push_back(
        {.function = function == nullptr ? std::string() : demangled(function),
         .file = file,
         .line = line});
  }
  return 0;
}

void set_function(void* data, uintptr_t /*address*/, const char* name, uintptr_t /*begin*/,
                  uintptr_t /*size*/) {
  if (name != nullptr) static_cast<Symbol*>(data)->function = demangled(name);
}

}  // namespace

Symbol symbol_of(const void* address) {
  // For the program's life: libbacktrace frees nothing.
  static backtrace_state* const state =
      backtrace_create_state(nullptr, /*threaded=*/1, ignore_error, nullptr);
  Symbol symbol;
  if (state == nullptr) return symbol;
  const auto number = reinterpret_cast<uintptr_t>(address);
  backtrace_pcinfo(state, number, add_line, ignore_error, &symbol);
  backtrace_syminfo(state, number, set_function, ignore_error, &symbol);
  // A local function has a name with its namespace in the symbol table alone.
  if (!symbol.lines.empty() && !symbol.function.empty()) {
    symbol.lines.back().function = symbol.function;
  }
  return symbol;
}

}  // namespace strata::graph
