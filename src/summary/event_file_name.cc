#include "summary/event_file_name.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>

#include "strata/core/file_system.h"
#include "strata/core/str_cat.h"

namespace strata::summary::detail {
namespace {

constexpr std::string_view kStart = "events.out.tfevents.";

// The seconds in the name of an event file; -1 in another's.
int64_t seconds_of(std::string_view name) {
  if (!name.starts_with(kStart)) return -1;
  name.remove_prefix(kStart.size());
  int64_t seconds = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), seconds);
  constexpr int64_t kTenDigits = 9'999'999'999;  // more would not sort as a number
  const bool is_one = error == std::errc() && end != name.data() + name.size() && *end == '.';
  return is_one && seconds < kTenDigits ? seconds : -1;
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == 0) return "localhost";
  std::string host = name;
  std::ranges::replace(host, '/', '_');
  return host;
}

std::string new_event_file_path(const std::string& logdir, int64_t seconds,
                                std::string_view suffix) {
  for (const std::string& name : file_system_of(logdir).list(logdir))
    seconds = std::max(seconds, seconds_of(name) + 1);
  static std::atomic<int64_t> number = 0;  // two writers of one process, in the same second
  std::string digits = std::to_string(seconds);
  if (digits.size() < 10) digits.insert(0, 10 - digits.size(), '0');
  return join_path(
      logdir, str_cat(kStart, digits, '.', host_name(), '.', ::getpid(), '.', number++, suffix));
}

}  // namespace strata::summary::detail
