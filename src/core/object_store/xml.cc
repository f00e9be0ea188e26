#include "core/object_store/xml.h"

#include <array>
#include <utility>

#include "strata/core/str_cat.h"

namespace strata::object_store {
namespace {

/// Takes what is in front of the end of the first element of that name away from `xml`.
bool take_element(std::string_view& xml, std::string_view name, std::string_view& content) {
  const std::string open = str_cat('<', name), close = str_cat("</", name, '>');
  for (size_t at = xml.find(open); at != xml.npos; at = xml.find(open, at + 1)) {
    const size_t behind = at + open.size();
    if (behind >= xml.size() || (xml[behind] != '>' && xml[behind] != ' ' && xml[behind] != '/')) {
      continue;  // <Key and <KeyCount
    }
    const size_t begin = xml.find('>', behind);
    if (begin == xml.npos) return false;
    if (xml[begin - 1] == '/') {
      content = {};
      xml.remove_prefix(begin + 1);
      return true;
    }
    const size_t end = xml.find(close, begin);
    if (end == xml.npos) return false;
    content = xml.substr(begin + 1, end - begin - 1);
    xml.remove_prefix(end + close.size());
    return true;
  }
  return false;
}

}  // namespace

std::string_view xml_element(std::string_view xml, std::string_view name) {
  std::string_view content;
  take_element(xml, name, content);
  return content;
}

std::vector<std::string_view> xml_elements(std::string_view xml, std::string_view name) {
  std::vector<std::string_view> all;
  for (std::string_view content; take_element(xml, name, content);) all.push_back(content);
  return all;
}

std::string xml_text(std::string_view xml, std::string_view name) {
  constexpr std::array<std::pair<std::string_view, char>, 6> kEntities = {{{"&amp;", '&'},
                                                                           {"&lt;", '<'},
                                                                           {"&gt;", '>'},
                                                                           {"&quot;", '"'},
                                                                           {"&apos;", '\''},
                                                                           {"&#34;", '"'}}};
  std::string text;
  for (std::string_view rest = xml_element(xml, name); !rest.empty();) {
    size_t taken = 1;
    char c = rest.front();
    for (const auto& [entity, meaning] : kEntities) {
      if (!rest.starts_with(entity)) continue;
      c = meaning;
      taken = entity.size();
    }
    text += c;
    rest.remove_prefix(taken);
  }
  return text;
}

}  // namespace strata::object_store
