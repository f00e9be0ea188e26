#include "keras/callbacks/path_pattern.h"

#include <cstdio>
#include <regex>

#include "keras/callbacks/python_text.h"
#include "strata/core/error.h"

namespace strata::callbacks::detail {
namespace {

std::string formatted(const std::string& pattern, const std::string& field, double value,
                      bool whole) {
  const size_t colon = field.find(':');
  const std::string format = colon == std::string::npos ? "" : field.substr(colon + 1);
  if (format.empty())
    return whole ? std::to_string(static_cast<int64_t>(value)) : python_text(value);
  static const std::regex kFormat(R"((0?\d*)(\.\d+)?([defgEG]))");
  std::smatch parts;
  const bool known = std::regex_match(format, parts, kFormat);
  const bool digits = known && parts[3] == "d";
  STRATA_CHECK(known && (whole || !digits) && !(digits && parts[2].matched), kInvalidArgument,
               "[callbacks] path '", pattern, "': cannot write {", field,
               "}; expected a format such as {epoch:02d} or {val_loss:.3f}");
  char buffer[400];
  if (digits) {
    const std::string printf_format = "%" + parts[1].str() + "lld";
    std::snprintf(buffer, sizeof buffer, printf_format.c_str(), static_cast<long long>(value));
  } else {
    std::snprintf(buffer, sizeof buffer, ("%" + format).c_str(), printed(value));
  }
  return buffer;
}

}  // namespace

std::string fill_in(const std::string& pattern, int64_t epoch, std::optional<int64_t> batch,
                    const keras::Logs& logs) {
  std::string path;
  for (size_t at = 0; at < pattern.size();) {
    const size_t open = pattern.find('{', at);
    path += pattern.substr(at, open - at);
    if (open == std::string::npos) break;
    const size_t close = pattern.find('}', open);
    STRATA_CHECK(close != std::string::npos, kInvalidArgument, "[callbacks] path '", pattern,
                 "': '{' without '}'");
    const std::string field = pattern.substr(open + 1, close - open - 1);
    const std::string name = field.substr(0, field.find(':'));
    at = close + 1;
    if (name == "epoch" || (name == "batch" && batch)) {
      path +=
          formatted(pattern, field, static_cast<double>(name == "epoch" ? epoch : *batch), true);
      continue;
    }
    const std::optional<double> value = logs.find(name);
    if (!value) {
      std::string names = batch ? "epoch, batch" : "epoch";
      for (const auto& [each, unused] : logs.values()) names += ", " + each;
      STRATA_CHECK(false, kInvalidArgument, "[callbacks] path '", pattern, "': there is no '", name,
                   "'; there are ", names);
    }
    path += formatted(pattern, field, *value, false);
  }
  return path;
}

}  // namespace strata::callbacks::detail
