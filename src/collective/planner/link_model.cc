#include "collective/planner/link_model.h"

#include "strata/core/error.h"
#include "strata/core/json.h"

namespace strata::collective {
namespace {

Json json_of(const Link& link) { return Json::array({link.latency, link.bytes_per_second}); }

double number_at_least_0(const Json& json) {
  const double value = json.as_double();
  STRATA_CHECK(value >= 0, kInvalidArgument, "got ", value,
               "; expected a number that is not negative");
  return value;
}

Link link_of(const Json& json) {
  const Json::Array& both = json.as_array();
  STRATA_CHECK(both.size() == 2, kInvalidArgument, "got ", both.size(),
               " numbers for a link; expected latency and bytes per second");
  return {.latency = number_at_least_0(both[0]), .bytes_per_second = number_at_least_0(both[1])};
}

}  // namespace

LinkModel LinkModel::typical() {
  return {.in_host = {.latency = 15e-6, .bytes_per_second = 3e9},
          .across_hosts = {.latency = 40e-6, .bytes_per_second = 1.18e9},
          .message_seconds = 3e-6,
          .reduce_bytes_per_second = 10e9};
}

LinkModel LinkModel::typical_cards() {
  return {.in_host = {.latency = 8e-6, .bytes_per_second = 20e9},
          .across_hosts = {.latency = 20e-6, .bytes_per_second = 10e9},
          .message_seconds = 2e-6,
          .reduce_bytes_per_second = 500e9};
}

const Link& LinkModel::between(const Placement& placement, int from, int to) const {
  if (!pairs.empty()) {
    return pairs[static_cast<size_t>(from) * static_cast<size_t>(placement.num_ranks()) +
                 static_cast<size_t>(to)];
  }
  return placement.host_of_rank[static_cast<size_t>(from)] ==
                 placement.host_of_rank[static_cast<size_t>(to)]
             ? in_host
             : across_hosts;
}

std::string LinkModel::to_json() const {
  Json json = Json::object();
  json.set("in_host", json_of(in_host));
  json.set("across_hosts", json_of(across_hosts));
  Json all = Json::array();
  for (const Link& link : pairs) all.push_back(json_of(link));
  json.set("pairs", all);
  json.set("message_seconds", message_seconds);
  json.set("ranks_per_processor", ranks_per_processor);
  json.set("reduce_bytes_per_second", reduce_bytes_per_second);
  return json.dump();
}

LinkModel LinkModel::from_json(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    LinkModel model;
    model.in_host = link_of(json.at("in_host"));
    model.across_hosts = link_of(json.at("across_hosts"));
    for (const Json& link : json.at("pairs").as_array()) model.pairs.push_back(link_of(link));
    model.message_seconds = number_at_least_0(json.at("message_seconds"));
    model.ranks_per_processor = json.at("ranks_per_processor").as_double();
    STRATA_CHECK(model.ranks_per_processor >= 1, kInvalidArgument, "got ",
                 model.ranks_per_processor, " ranks a processor; expected at least 1");
    model.reduce_bytes_per_second = number_at_least_0(json.at("reduce_bytes_per_second"));
    return model;
  } catch (const Error& error) {
    throw Error(ErrorCode::kInvalidArgument, str_cat("[link_model] from_json: ", error.what()));
  }
}

}  // namespace strata::collective
