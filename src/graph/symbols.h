#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strata::graph {

/// A line of source code.
struct SourceLine {
  std::string function;  ///< Demangled; of an inlined one perhaps without its namespace.
  std::string file;
  int line = 0;
};

/// What is known of an address in a program.
struct Symbol {
  /// From debug information: the line, and, if its function was inlined, the line that called it, and so on.
  /// Empty if the symbol table has no name for the address.
  std::vector<SourceLine> lines = {};
  /// Demangled, of the symbol table: the function that the code is in. Empty: it has none.
  std::string function = {};
};

/// @param address  In an instruction; of a return address, the one before it.
Symbol symbol_of(const void* address);

std::string demangled(const char* name);

/// "strata::graph::describe" of "std::string strata::graph::describe(strata::graph::Place const&)".
std::string_view qualified_name(std::string_view demangled_function);

/// Whether a function is of the libraries, by its demangled name: strata, libtorch, the standard library. Not a
/// library function that is instantiated for a lambda of the program, such as std::function's.
bool is_library_function(std::string_view demangled_function);

/// Whether a qualified name is in one of their namespaces.
bool is_library_name(std::string_view qualified_name);

/// Whether a source file is of them.
bool is_library_file(std::string_view path);

/// Whether a source file may be one of strata's: of a relative path, which compiler caches make, it is not certain.
bool is_own_source(std::string_view path);

}  // namespace strata::graph
