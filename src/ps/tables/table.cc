#include "strata/ps/table.h"

#include <algorithm>
#include <string_view>

#include "strata/core/error.h"
#include "strata/tensor/rule_json.h"

namespace strata::ps {
namespace {

Json parts_to_json(const std::vector<TablePart>& parts) {
  Json json = Json::array();
  for (const TablePart& part : parts) {
    json.push_back(Json::array({part.begin, part.end, part.server}));
  }
  return json;
}

std::vector<TablePart> parts_from_json(const Json& json) {
  std::vector<TablePart> parts;
  for (const Json& part : json.as_array()) {
    const Json::Array& numbers = part.as_array();
    STRATA_CHECK(numbers.size() == 3, kDataLoss, "[ps] table_from_json: got a part of ",
                 numbers.size(), " numbers; expected begin, end and server");
    parts.push_back({.begin = numbers[0].as_int(),
                     .end = numbers[1].as_int(),
                     .server = static_cast<int>(numbers[2].as_int())});
  }
  return parts;
}

}  // namespace

std::vector<TablePart> cut_evenly(int64_t elements, int64_t element_size, int servers) {
  const int64_t line = std::max<int64_t>(1, 64 / element_size);
  const int64_t lines = (elements + line - 1) / line;
  std::vector<TablePart> parts;
  for (int server = 0; server < servers; ++server) {
    const int64_t begin = std::min(elements, lines * server / servers * line);
    const int64_t end = std::min(elements, lines * (server + 1) / servers * line);
    if (begin < end) parts.push_back({begin, end, server});
  }
  return parts;
}

void check_table(const TableSpec& spec, int servers) {
  const auto where = [&] { return str_cat("[ps] table '", spec.name, "': "); };
  STRATA_CHECK(!spec.name.empty(), kInvalidArgument, "[ps] got a table without a name");
  STRATA_CHECK(spec.dtype == c10::ScalarType::Float || spec.dtype == c10::ScalarType::Double,
               kInvalidArgument, where(), "got dtype ", c10::toString(spec.dtype),
               "; parameter servers hold float32 and float64");
  const ConsistencyOptions& consistency = spec.consistency;
  STRATA_CHECK(consistency.staleness >= 0, kInvalidArgument, where(), "got staleness ",
               consistency.staleness, "; expected 0 steps or more");
  STRATA_CHECK(consistency.backups >= 0 && consistency.backups < consistency.workers,
               kInvalidArgument, where(), "got ", consistency.backups, " backups of ",
               consistency.workers, " workers; a step needs one push at least");
  STRATA_CHECK(!spec.standby || servers >= 2, kInvalidArgument, where(), "got standby with ",
               servers, " server; a copy needs another one: start two, or do without");
  int64_t next = 0;
  for (const TablePart& part : spec.parts) {
    STRATA_CHECK(part.begin == next && part.end > part.begin, kInvalidArgument, where(),
                 "got a part of elements ", part.begin, " to ", part.end, " behind ", next,
                 "; parts must follow each other without gaps");
    STRATA_CHECK(part.server >= 0 && part.server < servers, kInvalidArgument, where(),
                 "got a part on server ", part.server, " of ", servers);
    next = part.end;
  }
  STRATA_CHECK(spec.is_flat() != (spec.rows > 0), kInvalidArgument, where(), "got ",
               spec.parts.size(), " parts and ", spec.rows,
               " rows; a table has either parts or rows");
  STRATA_CHECK(spec.is_flat() || spec.width > 0, kInvalidArgument, where(), "got rows of width ",
               spec.width);
  STRATA_CHECK(!tensor::make_rule(spec.rule)->whole_variables(), kUnimplemented, where(),
               "got the rule ", tensor::make_rule(spec.rule)->name(),
               ", which needs norms of whole variables; servers hold parts of them. Take Adam");
}

Json table_to_json(const TableSpec& spec) {
  Json json = Json::object();
  json.set("name", spec.name);
  json.set("dtype", spec.dtype == c10::ScalarType::Double ? "float64" : "float32");
  json.set("rule", tensor::rule_to_json(spec.rule));
  const ConsistencyOptions& consistency = spec.consistency;
  json.set("consistency", Json::array({static_cast<int>(consistency.kind), consistency.staleness,
                                       consistency.workers, consistency.backups}));
  json.set("standby", spec.standby);
  json.set("parts", parts_to_json(spec.parts));
  json.set("undecayed", parts_to_json(spec.undecayed));
  json.set("rows", spec.rows);
  json.set("width", spec.width);
  const RowInitializer& initializer = spec.initializer;
  json.set("initializer", Json::array({static_cast<int>(initializer.kind), initializer.a,
                                       initializer.b, static_cast<int64_t>(initializer.seed)}));
  return json;
}

TableSpec table_from_json(const Json& json) {
  TableSpec spec;
  spec.name = json.at("name").as_string();
  spec.dtype =
      json.at("dtype").as_string() == "float64" ? c10::ScalarType::Double : c10::ScalarType::Float;
  spec.rule = tensor::rule_from_json(json.at("rule"));
  const Json::Array& consistency = json.at("consistency").as_array();
  const Json::Array& initializer = json.at("initializer").as_array();
  STRATA_CHECK(consistency.size() == 4 && initializer.size() == 4, kDataLoss,
               "[ps] table_from_json: got ", consistency.size(), " and ", initializer.size(),
               " numbers for consistency and initializer; expected 4 and 4");
  spec.consistency = {.kind = static_cast<Consistency>(consistency[0].as_int()),
                      .staleness = consistency[1].as_int(),
                      .workers = static_cast<int>(consistency[2].as_int()),
                      .backups = static_cast<int>(consistency[3].as_int())};
  spec.standby = json.at("standby").as_bool();
  spec.parts = parts_from_json(json.at("parts"));
  spec.undecayed = parts_from_json(json.at("undecayed"));
  spec.rows = json.at("rows").as_int();
  spec.width = json.at("width").as_int();
  spec.initializer = {.kind = static_cast<RowInitializer::Kind>(initializer[0].as_int()),
                      .a = initializer[1].as_double(),
                      .b = initializer[2].as_double(),
                      .seed = static_cast<uint64_t>(initializer[3].as_int())};
  return spec;
}

}  // namespace strata::ps
