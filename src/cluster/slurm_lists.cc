// SLURM's short forms of lists.
#include <algorithm>
#include <charconv>

#include "strata/cluster/slurm_resolver.h"
#include "strata/core/error.h"

namespace strata::cluster {
namespace {

constexpr size_t kMostHosts = 1 << 20;  // a slip such as n[1-1000000000] is an error, not a crash

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

  int number(std::string_view part, std::string_view digits) const {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 0) {
      fail(part, str_cat("\"", digits, "\" for a number"));
    }
    return value;
  }

  std::vector<std::string> range(std::string_view part, std::string_view text) const {
    const size_t dash = text.find('-');
    const std::string_view first = text.substr(0, dash);
    const int low = number(part, first);
    const int high = dash == std::string_view::npos ? low : number(part, text.substr(dash + 1));
    if (high < low) fail(part, str_cat("\"", text, "\", which runs backwards,"));
    if (static_cast<size_t>(high - low) >= kMostHosts) fail(part, "more hosts than can be");
    std::vector<std::string> values;
    for (int value = low; value <= high; ++value) {
      std::string digits = std::to_string(value);
      if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
      values.push_back(std::move(digits));
    }
    return values;
  }

  // "r[1-2]n[1-2]": every group in turn multiplies what stands before it.
  void append(std::string_view part, std::vector<std::string>& hosts) const {
    if (part.empty()) fail(list_, "an empty name");
    std::vector<std::string> names = {""};
    for (size_t at = 0; at < part.size();) {
      const size_t open = std::min(part.find('[', at), part.size());
      for (std::string& name : names) name += part.substr(at, open - at);
      if (open == part.size()) break;
      const size_t close = part.find(']', open);
      std::vector<std::string> values;
      for (size_t begin = open + 1; begin <= close;) {
        const size_t comma = std::min(part.find(',', begin), close);
        const auto more = range(part, part.substr(begin, comma - begin));
        values.insert(values.end(), more.begin(), more.end());
        begin = comma + 1;
      }
      if (names.size() * values.size() > kMostHosts) fail(part, "more hosts than can be");
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
};

}  // namespace

std::vector<std::string> expand_host_list(std::string_view list) { return HostList(list).expand(); }

std::vector<int> expand_tasks_per_node(std::string_view list) {
  constexpr int kMostNodes = 1 << 20;
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
            parsed.ec == std::errc() && parsed.ptr == last - 1 && times >= 0 && times <= kMostNodes;
      }
    }
    STRATA_CHECK(good, kInvalidArgument, "[cluster] expand_tasks_per_node: got \"", list,
                 "\" with \"", list.substr(begin, end - begin),
                 "\"; expected a list such as 2(x2),1");
    counts.insert(counts.end(), static_cast<size_t>(times), count);
    begin = end + 1;
  }
  return counts;
}

}  // namespace strata::cluster
