#include "simulate/links_file.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "core/join.h"
#include "strata/core/error.h"
#include "strata/core/json.h"

namespace strata::simulate {
namespace {

constexpr std::string_view kMembers[] = {
    "in_host",         "across_hosts",        "pairs",
    "message_seconds", "ranks_per_processor", "reduce_bytes_per_second"};

}  // namespace

collective::LinkModel links_from_json(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    for (const auto& [name, value] : json.as_object()) {
      STRATA_CHECK(std::ranges::find(kMembers, name) != std::end(kMembers), kInvalidArgument,
                   "got member ", name, "; expected ", join(kMembers));
    }
    json.at("across_hosts");
    Json whole = Json::parse(
        collective::LinkModel{.in_host = collective::LinkModel::typical().in_host}.to_json());
    for (const auto& [name, value] : json.as_object()) whole.set(name, value);
    return collective::LinkModel::from_json(whole.dump());
  } catch (const Error& error) {
    throw Error(ErrorCode::kInvalidArgument, str_cat("[simulate] links: ", error.what()));
  }
}

}  // namespace strata::simulate
