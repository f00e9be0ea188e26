#include "strata/ps/table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "core/checked_size.h"
#include "strata/core/error.h"
#include "tensor/rule_json.h"
#include "tensor/update_rule.h"

namespace strata::ps {
namespace {

constexpr size_t kLongestName = 255;

Json parts_to_json(const std::vector<TablePart>& parts) {
  Json json = Json::array();
  for (const TablePart& part : parts) {
    json.push_back(Json::array({part.begin, part.end, part.server}));
  }
  return json;
}

template <typename Enum>
Enum enum_from_json(const Json& json, Enum last, std::string_view what) {
  const int64_t number = json.as_int();
  STRATA_CHECK(number >= 0 && number <= static_cast<int64_t>(last), kDataLoss,
               "[ps] table_from_json: got ", what, " ", number, "; expected 0 to ",
               static_cast<int64_t>(last));
  return static_cast<Enum>(number);
}

int int_from_json(const Json& json, std::string_view what) {
  const int64_t number = json.as_int();
  STRATA_CHECK(number >= 0 && number <= std::numeric_limits<int>::max(), kDataLoss,
               "[ps] table_from_json: got ", number, " as ", what, "; expected 0 to 2^31 - 1");
  return static_cast<int>(number);
}

std::vector<TablePart> parts_from_json(const Json& json) {
  std::vector<TablePart> parts;
  for (const Json& part : json.as_array()) {
    const Json::Array& numbers = part.as_array();
    STRATA_CHECK(numbers.size() == 3, kDataLoss, "[ps] table_from_json: got a part of ",
                 numbers.size(), " numbers; expected begin, end and server");
    parts.push_back({.begin = numbers[0].as_int(),
                     .end = numbers[1].as_int(),
                     .server = int_from_json(numbers[2], "server")});
  }
  return parts;
}

/// Ranges of a flat table's elements, in ascending order and apart.
void check_no_weight_decay(const TableSpec& spec, const std::string& where) {
  int64_t next = 0;
  const int64_t end = spec.is_flat() ? spec.parts.back().end : 0;
  for (const TablePart& range : spec.no_weight_decay) {
    STRATA_CHECK(range.begin >= next && range.end >= range.begin && range.end <= end,
                 kInvalidArgument, where, "got elements ", range.begin, " to ", range.end,
                 " without weight decay behind ", next,
                 "; expected ascending ranges of the table's ", end, " elements");
    next = range.end;
  }
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
  // It is in errors and logs.
  STRATA_CHECK(spec.name.size() <= kLongestName, kInvalidArgument, "[ps] got a table's name of ",
               spec.name.size(), " bytes; expected at most ", kLongestName);
  STRATA_CHECK(
      std::ranges::all_of(spec.name,
                          [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != 127; }),
      kInvalidArgument, "[ps] got a table's name with control characters");
  STRATA_CHECK(spec.dtype == c10::ScalarType::Float || spec.dtype == c10::ScalarType::Double,
               kInvalidArgument, where(), "got dtype ", c10::toString(spec.dtype),
               "; parameter servers hold float32 and float64");
  const ConsistencyOptions& consistency = spec.consistency;
  STRATA_CHECK(consistency.staleness >= 0, kInvalidArgument, where(), "got staleness ",
               consistency.staleness, "; expected 0 steps or more");
  STRATA_CHECK(consistency.backups >= 0 && consistency.backups < consistency.workers,
               kInvalidArgument, where(), "got ", consistency.backups, " backups of ",
               consistency.workers, " workers; a step needs one push at least");
  STRATA_CHECK(!spec.backup || servers >= 2, kInvalidArgument, where(), "got backup with ", servers,
               " server; a copy needs another one: start two, or do without");
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
  const RowInitializer& initializer = spec.initializer;
  STRATA_CHECK(std::isfinite(initializer.a) && std::isfinite(initializer.b), kInvalidArgument,
               where(), "got an initializer with ", initializer.a, " and ", initializer.b,
               "; expected finite numbers");
  const int64_t element = static_cast<int64_t>(c10::elementSize(spec.dtype));
  const auto bytes =
      spec.is_flat() ? strata::detail::checked_product<int64_t>({spec.parts.back().end, element})
                     : strata::detail::checked_product<int64_t>({spec.rows, spec.width, element});
  STRATA_CHECK(bytes.has_value(), kInvalidArgument, where(), "got ",
               spec.is_flat() ? str_cat(spec.parts.back().end, " elements")
                              : str_cat(spec.rows, " rows of width ", spec.width),
               ", beyond 2^63 bytes; make the table smaller");
  check_no_weight_decay(spec, where());
  const auto rule = tensor::make_rule(spec.rule);
  STRATA_CHECK(!rule->whole_variables(), kUnimplemented, where(), "got the rule ", rule->name(),
               ", which needs norms of whole variables; servers hold parts of them. Take Adam");
  for (int slot = 0; slot < rule->num_slots(); ++slot) {
    STRATA_CHECK(!rule->slot_starts_as_variable(slot), kUnimplemented, where(), "got the rule ",
                 rule->name(), ", whose '", rule->slot_name(slot),
                 "' begins as the variable, which a server does not have yet. Take AdamW");
  }
}

Json table_to_json(const TableSpec& spec) {
  Json json = Json::object();
  json.set("name", spec.name);
  json.set("dtype", spec.dtype == c10::ScalarType::Double ? "float64" : "float32");
  json.set("rule", tensor::rule_to_json(spec.rule));
  const ConsistencyOptions& consistency = spec.consistency;
  json.set("consistency", Json::array({static_cast<int>(consistency.kind), consistency.staleness,
                                       consistency.workers, consistency.backups}));
  json.set("backup", spec.backup);
  json.set("parts", parts_to_json(spec.parts));
  json.set("undecayed", parts_to_json(spec.no_weight_decay));
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
  spec.consistency = {
      .kind = enum_from_json(consistency[0], Consistency::kSynchronous, "consistency"),
      .staleness = consistency[1].as_int(),
      .workers = int_from_json(consistency[2], "workers"),
      .backups = int_from_json(consistency[3], "backups")};
  spec.backup = json.at("backup").as_bool();
  spec.parts = parts_from_json(json.at("parts"));
  spec.no_weight_decay = parts_from_json(json.at("undecayed"));
  spec.rows = json.at("rows").as_int();
  spec.width = json.at("width").as_int();
  spec.initializer = {
      .kind = enum_from_json(initializer[0], RowInitializer::Kind::kNormal, "initializer"),
      .a = initializer[1].as_double(),
      .b = initializer[2].as_double(),
      .seed = static_cast<uint64_t>(initializer[3].as_int())};
  return spec;
}

}  // namespace strata::ps
