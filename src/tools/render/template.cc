#include "tools/render/template.h"

#include <algorithm>

#include "core/join.h"
#include "strata/core/error.h"
#include "tools/render/yaml_quote.h"
#include "tools/shell_quote.h"

namespace strata::tools {
namespace {

using List = std::vector<TemplateScope>;
using Words = std::vector<std::string>;

struct Line {
  size_t number;
  std::string_view text;  // without its end
};

// "#name" of a line that is a section's mark and nothing else; else empty.
std::string_view mark_of(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t");
  if (begin == line.npos) return {};
  line = line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
  if (line.size() < 6 || !line.starts_with("{{") || !line.ends_with("}}")) return {};
  line = line.substr(2, line.size() - 4);
  const bool mark = line[0] == '#' || line[0] == '^' || line[0] == '/';
  return mark && line.find("}}") == line.npos ? line : std::string_view();
}

bool is_plain(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@,+=";
  return text.find_first_not_of(kPlain) == std::string::npos;
}

class Filler {
 public:
  Filler(Quoting quoting, Words* used) : quoting_(quoting), used_(used) {}

  void fill(const std::vector<Line>& lines, size_t from, size_t to,
            std::vector<const TemplateScope*>& scopes, std::string& out) {
    for (size_t i = from; i < to; ++i) {
      const std::string_view mark = mark_of(lines[i].text);
      if (mark.empty()) {
        fill_line(lines[i], scopes, out);
        continue;
      }
      if (mark[0] == '/') refuse(lines[i], str_cat("{{", mark, "}} without its beginning"));
      const size_t end = end_of(lines, i, to, mark.substr(1));
      const TemplateValue& value = find(lines[i], mark.substr(1), scopes);
      if (mark[0] == '^') {
        if (!holds(value)) fill(lines, i + 1, end, scopes, out);
      } else if (const List* const list = std::get_if<List>(&value)) {
        for (const TemplateScope& each : *list) {
          scopes.push_back(&each);
          fill(lines, i + 1, end, scopes, out);
          scopes.pop_back();
        }
      } else if (holds(value)) {
        fill(lines, i + 1, end, scopes, out);
      }
      i = end;
    }
  }

 private:
  [[noreturn]] static void refuse(const Line& line, std::string_view what) {
    throw Error(ErrorCode::kInvalidArgument, str_cat("[strata render] template, line ", line.number,
                                                     ": got ", what, " in \"", line.text, "\""));
  }

  static bool holds(const TemplateValue& value) {
    if (const auto* const text = std::get_if<std::string>(&value)) {
      return !text->empty() && *text != "0";
    }
    if (const auto* const words = std::get_if<Words>(&value)) return !words->empty();
    return !std::get<List>(value).empty();
  }

  static size_t end_of(const std::vector<Line>& lines, size_t begin, size_t to,
                       std::string_view name) {
    int depth = 0;
    for (size_t i = begin; i < to; ++i) {
      const std::string_view mark = mark_of(lines[i].text);
      if (mark.empty() || mark.substr(1) != name) continue;
      depth += mark[0] == '/' ? -1 : 1;
      if (depth == 0) return i;
    }
    refuse(lines[begin], str_cat("a section without {{/", name, "}}"));
  }

  const TemplateValue& find(const Line& line, std::string_view name,
                            const std::vector<const TemplateScope*>& scopes) {
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
      const auto found = (*scope)->values.find(std::string(name));
      if (found == (*scope)->values.end()) continue;
      if (used_ != nullptr) used_->emplace_back(name);
      return found->second;
    }
    Words known;
    for (const TemplateScope* const scope : scopes) {
      for (const auto& [each, value] : scope->values) known.push_back(each);
    }
    refuse(line, str_cat("the unknown name \"", name, "\" (known here: ", join(known),
                         "; --set NAME=VALUE adds one)"));
  }

  void fill_line(const Line& line, const std::vector<const TemplateScope*>& scopes,
                 std::string& out) {
    std::string_view rest = line.text;
    while (true) {
      size_t begin = rest.find("{{");
      while (begin != rest.npos && rest.substr(begin + 1).starts_with("{{")) ++begin;  // "{{{=x}}}"
      out += rest.substr(0, begin);
      if (begin == rest.npos) break;
      rest.remove_prefix(begin + 2);
      const size_t end = rest.find("}}");
      if (end == rest.npos) refuse(line, "{{ without }}");
      std::string_view name = rest.substr(0, end);
      rest.remove_prefix(end + 2);
      const bool as_it_is = name.starts_with('=');
      if (as_it_is) name.remove_prefix(1);
      const TemplateValue& value = find(line, name, scopes);
      if (const auto* const words = std::get_if<Words>(&value); words != nullptr && !as_it_is) {
        out += quoting_ == Quoting::kShell ? join(*words, shell_quoted, " ")
                                           : "[" + join(*words, yaml_quoted) + "]";
        continue;
      }
      const auto* const text = std::get_if<std::string>(&value);
      if (text == nullptr) refuse(line, str_cat("a list, \"", name, "\", as a value"));
      if (as_it_is && !is_plain(*text)) {
        refuse(line, str_cat("\"", *text, "\" for ", name,
                             ", which has to be of letters, digits and ._-/:@,+= here"));
      }
      out += as_it_is                      ? *text
             : quoting_ == Quoting::kShell ? shell_quoted(*text)
                                           : yaml_quoted(*text);
    }
    out += '\n';
  }

  const Quoting quoting_;
  Words* const used_;
};

}  // namespace

std::string fill_template(std::string_view text, const TemplateScope& values, Quoting quoting,
                          std::vector<std::string>* used) {
  std::vector<Line> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back({.number = lines.size() + 1, .text = text.substr(0, end)});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::vector<const TemplateScope*> scopes = {&values};
  std::string out;
  Filler(quoting, used).fill(lines, 0, lines.size(), scopes, out);
  return out;
}

}  // namespace strata::tools
