#pragma once

#include <string>
#include <string_view>
#include <vector>

/// The little XML that object stores answer with: elements without attributes of interest, which do
/// not hold others of their own name.
namespace strata::object_store {

/// What stands between <name> and </name>, the first one's, with its entities; empty: there is
/// none.
std::string_view xml_element(std::string_view xml, std::string_view name);
/// All of them, in order.
std::vector<std::string_view> xml_elements(std::string_view xml, std::string_view name);
/// The text of the first element of that name, entities replaced.
std::string xml_text(std::string_view xml, std::string_view name);

}  // namespace strata::object_store
