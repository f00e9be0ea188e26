#include "strata/core/device_name.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "core/letter_case.h"
#include "strata/core/error.h"

namespace strata {
namespace {

constexpr std::string_view kForms = "cpu:0, gpu:1 or /job:worker/replica:0/task:1/device:CPU:0";

[[noreturn]] void fail(std::string_view text, std::string_view what) {
  throw Error(ErrorCode::kInvalidArgument, str_cat("[device_name] parse: got \"", text, "\": ",
                                                   what, "; expected a name such as ", kForms));
}

bool is_identifier(std::string_view word) {
  return !word.empty() && std::isalpha(static_cast<unsigned char>(word.front())) &&
         std::ranges::all_of(word, [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

std::optional<int> parse_number(std::string_view text, std::string_view word,
                                std::string_view part) {
  if (word == "*") return std::nullopt;
  int number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size() || number < 0) {
    fail(text, str_cat("\"", word, "\" is no number of a ", part));
  }
  return number;
}

// One place for both forms of a device, `CPU:0` after `/device:` and `cpu:0` alone.
void parse_device(std::string_view text, std::string_view word, DeviceName& name) {
  if (name.type || name.index) fail(text, "it names two devices");
  const size_t colon = word.find(':');
  const std::string_view type = word.substr(0, colon);
  if (type != "*") {
    if (!is_identifier(type)) fail(text, str_cat("\"", type, "\" is no type of device"));
    name.type = detail::upper_case(type);
  }
  if (colon != std::string_view::npos)
    name.index = parse_number(text, word.substr(colon + 1), "device");
}

template <typename T>
void set_once(std::string_view text, std::string_view part, std::optional<T>& slot,
              std::optional<T> value) {
  if (slot) fail(text, str_cat("it has two parts \"", part, "\""));
  slot = std::move(value);
}

void parse_part(std::string_view text, std::string_view part, DeviceName& name) {
  const size_t colon = part.find(':');
  const std::string_view key = part.substr(0, colon);
  const std::string_view value = colon == std::string_view::npos ? "" : part.substr(colon + 1);
  if (key == "job") {
    if (value != "*" && !is_identifier(value))
      fail(text, str_cat("\"", value, "\" is no name of a job"));
    set_once(text, key, name.job, value == "*" ? std::nullopt : std::optional<std::string>(value));
  } else if (key == "replica") {
    set_once(text, key, name.replica, parse_number(text, value, key));
  } else if (key == "task") {
    set_once(text, key, name.task, parse_number(text, value, key));
  } else if (key == "device") {
    parse_device(text, value, name);
  } else {
    parse_device(text, part, name);  // the old form, /cpu:0
  }
}

template <typename T>
bool part_matches(const std::optional<T>& wanted, const std::optional<T>& given) {
  return !wanted || wanted == given;
}

}  // namespace

DeviceName DeviceName::parse(std::string_view text) {
  DeviceName name;
  if (text.empty()) fail(text, "it is empty");
  if (text.front() != '/') {
    if (text.find('/') != std::string_view::npos)
      fail(text, "a name of several parts starts with \"/\"");
    parse_part(text, text, name);
    return name;
  }
  for (size_t begin = 1; begin <= text.size();) {
    const size_t end = std::min(text.find('/', begin), text.size());
    if (end == begin) fail(text, "a part is empty");
    parse_part(text, text.substr(begin, end - begin), name);
    begin = end + 1;
  }
  return name;
}

std::string DeviceName::to_string() const {
  std::string text;
  if (job) text += str_cat("/job:", *job);
  if (replica) text += str_cat("/replica:", *replica);
  if (task) text += str_cat("/task:", *task);
  if (type || index) {
    text += str_cat("/device:", type.value_or("*"), ":", index ? std::to_string(*index) : "*");
  }
  return text;
}

std::string DeviceName::short_name() const {
  if (!type) return "";
  return index ? str_cat(detail::lower_case(*type), ":", *index) : detail::lower_case(*type);
}

DeviceName DeviceName::merged_over(const DeviceName& defaults) const {
  DeviceName merged = *this;
  if (!merged.job) merged.job = defaults.job;
  if (!merged.replica) merged.replica = defaults.replica;
  if (!merged.task) merged.task = defaults.task;
  const bool same_type = !type || type == defaults.type;
  if (!merged.type) merged.type = defaults.type;
  if (!merged.index && same_type) merged.index = defaults.index;
  return merged;
}

bool DeviceName::matches(const DeviceName& other) const {
  return part_matches(job, other.job) && part_matches(replica, other.replica) &&
         part_matches(task, other.task) && part_matches(type, other.type) &&
         part_matches(index, other.index);
}

}  // namespace strata
