// SLURM's short forms of lists.
#include <algorithm>
#include <charconv>
#include <optional>

#include "cluster/most_tasks.h"
#include "core/checked_size.h"
#include "strata/cluster/resolvers.h"
#include "strata/core/error.h"

namespace strata::cluster {
namespace {

constexpr size_t kMostHosts = kMostTasks;  // n[1-1000000000] is an error, not a crash
// Of all names on the way, bytes: a short list must not ask for much work either.
constexpr size_t kMostBytes = size_t{16} << 20;

class HostList {
 public:
  explicit HostList(std::string_view list) : list_(list) {}

  std::vector<std::string> expand() {
    std::vector<std::string> hosts;
    size_t begin = 0;
    bool inside = false;
    for (size_t at = 0; at <= list_.size(); ++at) {
      const char c = at < list_.size() ? list_[at] : ',';
      if (c == '[' && std::exchange(inside, true)) fail(list_.substr(begin), "'[' inside of [ ]");
      if (c == ']' && !std::exchange(inside, false)) fail(list_.substr(begin), "']' without '['");
      if (c != ',' || (inside && at < list_.size())) continue;
      if (inside) fail(list_.substr(begin), "no ']'");
      append(list_.substr(begin, at - begin), hosts);
      begin = at + 1;
    }
    return hosts;
  }

 private:
  [[noreturn]] void fail(std::string_view part, std::string_view what) const {
    throw Error(ErrorCode::kInvalidArgument,
                str_cat("[cluster] expand_host_list: got \"", list_, "\" with ", what, " in \"",
                        part, "\"; expected a list such as n[001-003,7],m5"));
  }

  /// Before `names` names of `length` bytes are made.
  void make_room(std::string_view part, size_t names, size_t length) {
    const std::optional<size_t> bytes = strata::detail::checked_product({names, length});
    if (names > kMostHosts || !bytes || *bytes > kMostBytes - made_) {
      fail(part, "more hosts than can be");
    }
    made_ += *bytes;
  }

  static size_t longest(const std::vector<std::string>& names) {
    size_t length = 0;
    for (const std::string& name : names) length = std::max(length, name.size());
    return length;
  }

  int number(std::string_view part, std::string_view digits) const {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 0) {
      fail(part, str_cat("\"", digits, "\" for a number"));
    }
    return value;
  }

  /// Adds the numbers of "3" or "001-003" to `values`.
  void range(std::string_view part, std::string_view text, std::vector<std::string>& values) {
    const size_t dash = text.find('-');
    const std::string_view first = text.substr(0, dash);
    const int low = number(part, first);
    const int high = dash == std::string_view::npos ? low : number(part, text.substr(dash + 1));
    if (high < low) fail(part, str_cat("\"", text, "\", which runs backwards,"));
    const size_t count = static_cast<size_t>(high - low) + 1;
    make_room(part, values.size() + count, std::max<size_t>(first.size(), 10));
    for (size_t i = 0; i < count; ++i) {
      std::string digits = std::to_string(low + static_cast<int>(i));
      if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
      values.push_back(std::move(digits));
    }
  }

  // "r[1-2]n[1-2]": every group in turn multiplies what precedes it.
  void append(std::string_view part, std::vector<std::string>& hosts) {
    if (part.empty()) fail(list_, "an empty name");
    std::vector<std::string> names = {""};
    for (size_t at = 0; at < part.size();) {
      const size_t open = std::min(part.find('[', at), part.size());
      make_room(part, names.size(), open - at);
      for (std::string& name : names) name += part.substr(at, open - at);
      if (open == part.size()) break;
      const size_t close = part.find(']', open);
      std::vector<std::string> values;
      for (size_t begin = open + 1; begin <= close;) {
        const size_t comma = std::min(part.find(',', begin), close);
        range(part, part.substr(begin, comma - begin), values);
        begin = comma + 1;
      }
      make_room(part, names.size() * values.size(), longest(names) + longest(values));
      std::vector<std::string> longer;
      for (const std::string& name : names) {
        for (const std::string& value : values) longer.push_back(name + value);
      }
      names = std::move(longer);
      at = close + 1;
    }
    if (hosts.size() + names.size() > kMostHosts) fail(part, "more hosts than can be");
    hosts.insert(hosts.end(), names.begin(), names.end());
  }

  const std::string_view list_;
  size_t made_ = 0;
};

}  // namespace

std::vector<std::string> expand_host_list(std::string_view list) { return HostList(list).expand(); }

std::vector<int> expand_tasks_per_node(std::string_view list) {
  constexpr size_t kMostNodes = kMostTasks;
  std::vector<int> counts;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const char* at = list.data() + begin;
    const char* last = list.data() + end;
    int count = 0;
    int times = 1;
    auto parsed = std::from_chars(at, last, count);
    bool good = parsed.ec == std::errc() && count >= 0;
    if (good && parsed.ptr != last) {
      const std::string_view rest(parsed.ptr, static_cast<size_t>(last - parsed.ptr));
      good = rest.starts_with("(x") && rest.ends_with(")");
      if (good) {
        parsed = std::from_chars(parsed.ptr + 2, last - 1, times);
        good =
            parsed.ec == std::errc() && parsed.ptr == last - 1 && times >= 0 && times <= kMostTasks;
      }
    }
    STRATA_CHECK(good, kInvalidArgument, "[cluster] expand_tasks_per_node: got \"", list,
                 "\" with \"", list.substr(begin, end - begin),
                 "\"; expected a list such as 2(x2),1");
    STRATA_CHECK(counts.size() + static_cast<size_t>(times) <= kMostNodes, kInvalidArgument,
                 "[cluster] expand_tasks_per_node: got more than ", kMostNodes, " nodes in \"",
                 list.substr(0, end), "\"; expected at most as many as SLURM has");
    counts.insert(counts.end(), static_cast<size_t>(times), count);
    begin = end + 1;
  }
  return counts;
}

}  // namespace strata::cluster
