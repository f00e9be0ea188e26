#pragma once

#include <random>
#include <string>
#include <vector>

namespace strata::test {

/// Texts of what trips quoting: spaces, quotes, line ends, `$`, backslashes, control characters,
/// letters of several bytes; the known ones first, then seeded mixtures.
inline std::vector<std::string> odd_texts(int mixtures) {
  std::vector<std::string> texts = {"",
                                    " ",
                                    "a b",
                                    "'",
                                    "\"",
                                    "''\"\"",
                                    "\\",
                                    "\\'",
                                    "$HOME",
                                    "$$",
                                    "$(id)",
                                    "`id`",
                                    "${A}",
                                    "a\nb",
                                    "\n",
                                    "\r\n",
                                    "\t",
                                    "*",
                                    "~",
                                    "-n",
                                    "--",
                                    "#x",
                                    "a#b",
                                    "!x",
                                    "%s%n",
                                    "{{a}}",
                                    "}}",
                                    "yes",
                                    "null",
                                    "1e3",
                                    "0x1F",
                                    "- a",
                                    ": ",
                                    "a: b",
                                    "&a",
                                    "|",
                                    ">",
                                    "@",
                                    "[a]",
                                    "{b}",
                                    "\u00e4",
                                    "\u65e5\u672c",
                                    "\U0001f600",
                                    "\x7f",
                                    "\x01\x1b[0m",
                                    "=",
                                    "a=b",
                                    "=a",
                                    "\u2028",
                                    "\u0085",
                                    "\ufeff",
                                    "EOF",
                                    "\\n",
                                    "a\\\nb",
                                    "$(TASK_INDEX)",
                                    "$$(TASK_INDEX)",
                                    "a'b\"c$d`e\\f\ng h\u00e9!"};
  const std::vector<std::string> parts = {"'", "\"", "\\", "$", "`", "\n", " ", "\t",        "a",
                                          "(", ")",  "{",  "}", "#", ":",  "-", "\u00e9",    "!",
                                          "%", "\r", "*",  "~", "&", ";",  "|", "\U0001f600"};
  std::mt19937 random(7);
  for (int i = 0; i < mixtures; ++i) {
    std::string text;
    const size_t length = random() % 12;
    for (size_t j = 0; j < length; ++j) text += parts[random() % parts.size()];
    texts.push_back(text);
  }
  return texts;
}

}  // namespace strata::test
