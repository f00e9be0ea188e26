#include <regex>

#include "keras_files/model_layout.h"

namespace strata::keras_files {

std::string to_snake_case(std::string_view class_name) {
  // Keras's own expressions, in its order.
  static const std::regex kOther("[^A-Za-z0-9_]+"), kWord("(.)([A-Z][a-z]+)"),
      kBorder("([a-z])([A-Z])");
  std::string text = std::regex_replace(std::string(class_name), kOther, "");
  text = std::regex_replace(text, kWord, "$1_$2");
  text = std::regex_replace(text, kBorder, "$1_$2");
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

std::string GroupNames::next(std::string_view class_name) {
  std::string name = to_snake_case(class_name);
  const int number = used_[name]++;
  return number == 0 ? name : name + '_' + std::to_string(number);
}

}  // namespace strata::keras_files
