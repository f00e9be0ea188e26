#include "tensor/muon_variables.h"

#include <algorithm>

#include "core/letter_case.h"
#include "strata/core/error.h"

namespace strata::tensor {
namespace {

std::regex expression_of(const std::string& text) {
  try {
    return std::regex(text);
  } catch (const std::regex_error& error) {
    throw Error(
        ErrorCode::kInvalidArgument,
        str_cat("[muon] got '", text, "' in exclude_layers, which is no regular expression (",
                error.what(), "); expected one, such as \"output_dense\""));
  }
}

}  // namespace

MuonVariables::MuonVariables(const std::vector<std::string>& exclude_layers,
                             bool exclude_embeddings)
    : exclude_embeddings_(exclude_embeddings) {
  for (const std::string& text : exclude_layers) excluded_.push_back(expression_of(text));
}

bool MuonVariables::contains(const std::string& name, std::span<const int64_t> sizes) const {
  if (sizes.size() != 2) return false;
  if (exclude_embeddings_ &&
      strata::detail::lower_case(name).find("embedding") != std::string::npos) {
    return false;
  }
  return std::ranges::none_of(
      excluded_, [&](const std::regex& each) { return std::regex_search(name, each); });
}

}  // namespace strata::tensor
