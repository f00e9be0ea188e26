#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace strata::tools {

/// How a template's values are quoted.
enum class Quoting { kShell, kYaml };

struct TemplateScope;
/// A text, words (a command), or a list, for whose elements a section is repeated.
using TemplateValue =
    std::variant<std::string, std::vector<std::string>, std::vector<TemplateScope>>;
struct TemplateScope {
  std::map<std::string, TemplateValue> values;
};

/// A text with placeholders:
///
///     {{name}}    the value, quoted for the file's language: whatever is in it, it is one word of a
///                 shell, or one string of YAML. Words are a list: several, or ["a", "b"].
///     {{=name}}   the value as it is, where a quoted one cannot be; it may have letters, digits
///                 and . _ - / : @ , + = only, or is an error.
///     {{#name}}   on a line of its own: the lines up to {{/name}} are left out where the value is
///                 empty or "0", and repeated for each element of a list, whose values come
///                 first in there.
///     {{^name}}   the other way round: the lines are there where the value is empty or "0".
///
/// @param used  Gets the names that were read.
/// @throws Error  kInvalidArgument: quotes the line with a name that is not known, a section that
///     does not end, or a value that cannot be written so.
std::string fill_template(std::string_view text, const TemplateScope& values, Quoting quoting,
                          std::vector<std::string>* used = nullptr);

}  // namespace strata::tools
