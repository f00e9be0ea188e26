#include "tools/launch/host_list.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "cluster/most_tasks.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"

namespace strata::tools {
namespace {

constexpr std::string_view kForm = "expected hosts with their numbers of workers, as h1:2,h2:2";

[[noreturn]] void refuse(std::string_view entry, std::string_view why) {
  throw Error(ErrorCode::kInvalidArgument,
              str_cat("[strata launch] hosts: got \"", entry, "\"", why, "; ", kForm));
}

// No shell and no address of ours reads anything else out of it.
bool is_name(std::string_view text, std::string_view more) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  return !text.empty() && text.front() != '-' && std::ranges::all_of(text, [&](char c) {
    return kPlain.find(c) != kPlain.npos || more.find(c) != more.npos;
  });
}

Host parse_host(std::string_view entry) {
  Host host;
  std::string_view rest = entry;
  std::string_view login;
  std::string_view user;
  if (const size_t equals = rest.find('='); equals != rest.npos) {
    login = rest.substr(0, equals);
    rest.remove_prefix(equals + 1);
    const std::string_view name = login.substr(login.find('@') + 1);
    if (!is_name(name, ":")) refuse(entry, ", where no name for ssh is in front of '='");
  } else if (const size_t at = rest.find('@'); at != rest.npos) {
    user = rest.substr(0, at + 1);
    rest.remove_prefix(at + 1);
  }
  std::string_view number;
  if (rest.starts_with('[')) {
    const size_t end = rest.find(']');
    if (end == rest.npos) refuse(entry, " with '[' and no ']'");
    host.address = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    if (!is_name(host.address, ":%")) refuse(entry, ", which has no IPv6 address between [ and ]");
  } else {
    if (std::ranges::count(rest, ':') > 1) {
      refuse(entry, " with several ':'; an IPv6 address is written [fd00::1]:2");
    }
    host.address = rest.substr(0, rest.find(':'));
    rest.remove_prefix(host.address.size());
    if (!is_name(host.address, "")) refuse(entry, ", which names no host");
  }
  if (!rest.empty()) {
    const char* const last = rest.data() + rest.size();
    const auto [stopped, error] = std::from_chars(rest.data() + 1, last, host.slots);
    const bool good = rest.front() == ':' && error == std::errc() && stopped == last &&
                      host.slots > 0 && host.slots <= cluster::kMostTasks;
    if (!good) refuse(entry, ", whose number of workers is none");
  }
  host.login = login.empty() ? str_cat(user, host.address) : std::string(login);
  const std::string_view name =
      user.empty() ? std::string_view("u") : user.substr(0, user.size() - 1);
  if (!is_name(name, "\\+") || host.login.front() == '-') refuse(entry, ", which names no user");
  return host;
}

void check_hosts(const std::vector<Host>& hosts) {
  const auto loopback = [](const Host& host) {
    return host.address == "localhost" || host.address == "::1" || host.address.starts_with("127.");
  };
  for (size_t i = 0; i < hosts.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (hosts[i].address == hosts[j].address) {
        refuse(hosts[i].address,
               str_cat(" twice; write ", hosts[i].address, ":", hosts[i].slots + hosts[j].slots));
      }
    }
    if (loopback(hosts[i]) != loopback(hosts[0])) {
      refuse(loopback(hosts[i]) ? hosts[i].address : hosts[0].address,
             " among other hosts, which reach themselves under that name; give the name or the "
             "address that the others have for it");
    }
  }
}

}  // namespace

std::vector<Host> parse_hosts(std::string_view list) {
  std::vector<Host> hosts;
  while (true) {
    const size_t comma = list.find(',');
    hosts.push_back(parse_host(list.substr(0, comma)));
    if (comma == list.npos) break;
    list.remove_prefix(comma + 1);
  }
  check_hosts(hosts);
  return hosts;
}

std::vector<Host> read_host_file(const std::string& path) {
  std::vector<Host> hosts;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find('#'));
    std::istringstream words(line);
    std::string host, slots, more;
    if (!(words >> host)) continue;
    constexpr std::string_view kSlots = "slots=";
    if (words >> slots) {
      if (!slots.starts_with(kSlots) || words >> more) {
        refuse(line, str_cat(" in ", path, "; a line is h1:2 or h1 slots=2"));
      }
      host += ":" + slots.substr(kSlots.size());
    }
    hosts.push_back(parse_host(host));
  }
  STRATA_CHECK(!hosts.empty(), kInvalidArgument, "[strata launch] got --hostfile ", path,
               ", which names no host; ", kForm);
  check_hosts(hosts);
  return hosts;
}

}  // namespace strata::tools
