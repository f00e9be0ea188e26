// Whose code a function is.
#include "graph/symbols.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace strata::graph {
bool is_library_name(std::string_view name) {
  static constexpr std::string_view kNamespaces[] = {
      "strata::", "at::",        "torch::",      "c10::",   "std::",
      "caffe2::", "__gnu_cxx::", "__cxxabiv1::", "_Unwind_"};
  return std::ranges::any_of(kNamespaces, [&](auto each) { return name.starts_with(each); });
}

namespace {

/// Where the parentheses, brackets or braces that end before `end` begin.
size_t begin_of_brackets(std::string_view text, size_t end) {
  int depth = 0;
  size_t i = end;
  while (i-- > 0) {
    const char c = text[i];
    const bool arrow = c == '>' && i > 0 && text[i - 1] == '-';
    if (c == ')' || c == '}' || c == ']' || (c == '>' && !arrow)) ++depth;
    if (c == '(' || c == '{' || c == '[' || c == '<') --depth;
    if (depth == 0) break;
  }
  return i == static_cast<size_t>(-1) ? 0 : i;
}

/// The scope of the lambda whose "{lambda(" is at `place`, such as "main::".
std::string_view scope_of_lambda(std::string_view text, size_t place) {
  size_t begin = place;
  while (begin > 0) {
    const char c = text[begin - 1];
    if (c == ')' || c == '}' || c == ']' || c == '>') {
      begin = begin_of_brackets(text, begin);
    } else if (c == ' ' && text.substr(0, begin - 1).ends_with(')')) {
      --begin;  // "f() const::{lambda"
    } else if (text.substr(0, begin).ends_with(") const")) {
      begin -= 5;
    } else if (c == ',' || c == '<' || c == '(' || c == ' ' || c == '{') {
      break;
    } else {
      --begin;
    }
  }
  return text.substr(begin, place - begin);
}

bool has_a_programs_lambda(std::string_view function) {
  constexpr std::string_view kLambda = "{lambda(";
  for (size_t at = function.find(kLambda); at != std::string_view::npos;
       at = function.find(kLambda, at + 1)) {
    const std::string_view scope = scope_of_lambda(function, at);
    if (!scope.empty() && !is_library_name(scope)) return true;
  }
  return false;
}

/// The folder of strata's sources, where this build has them: ".../src/".
std::string_view source_folder() {
  constexpr std::string_view kThisFile = "graph/symbols.cc";
  std::string_view path = __FILE__;
  if (!path.ends_with(kThisFile)) return {};
  path.remove_suffix(kThisFile.size());
  return path;
}

}  // namespace

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : name;
}

std::string_view qualified_name(std::string_view function) {
  constexpr std::string_view kOperator = "operator";
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  size_t begin = 0, i = 0;
  while (i < function.size()) {
    const std::string_view rest = function.substr(i);
    if (rest.starts_with(kAnonymous)) {
      i += kAnonymous.size();
    } else if (rest.starts_with(kOperator) &&
               (i == 0 || function[i - 1] == ':' || function[i - 1] == ' ')) {
      i += kOperator.size();
      if (function.substr(i).starts_with("()")) i += 2;
      i = std::min(function.find_first_not_of("<>=-+*/%&|^~!", i), function.size());
      if (function.substr(i).starts_with(" <")) ++i;  // "operator< <int>"
    } else if (function[i] == '<' || function[i] == '{') {
      int depth = 0;
      for (; i < function.size(); ++i) {
        const char c = function[i];
        if (c == '<' || c == '{' || c == '(') ++depth;
        if ((c == '>' && function[i - 1] != '-') || c == '}' || c == ')') --depth;
        if (depth == 0) break;
      }
      ++i;
    } else if (function[i] == '(') {
      // A lambda's or a local class's scope goes on behind the parameters: "main(int)::{lambda()#1}".
      size_t end = i;
      int depth = 0;
      for (; end < function.size(); ++end) {
        if (function[end] == '(') ++depth;
        if (function[end] == ')' && --depth == 0) break;
      }
      std::string_view behind = function.substr(std::min(end + 1, function.size()));
      if (behind.starts_with(" const")) behind.remove_prefix(6);
      if (!behind.starts_with("::")) break;
      i = static_cast<size_t>(behind.data() - function.data());
    } else {
      if (function[i] == ' ') begin = i + 1;
      ++i;
    }
  }
  i = std::min(i, function.size());
  return function.substr(begin, i - begin);
}

bool is_library_function(std::string_view function) {
  return is_library_name(qualified_name(function)) && !has_a_programs_lambda(function);
}

bool is_library_file(std::string_view path) {
  static constexpr std::string_view kFolders[] = {
      "/include/strata/", "/include/ATen/", "/include/torch/", "/include/c10/", "/include/c++/"};
  return std::ranges::any_of(
             kFolders, [&](auto each) { return path.find(each) != std::string_view::npos; }) ||
         (path.starts_with('/') && is_own_source(path));
}

bool is_own_source(std::string_view path) {
  static const std::string_view sources = source_folder();
  return !sources.empty() && path.starts_with(sources);
}

}  // namespace strata::graph
