#include "tools/launch/host_list.h"

#include <gtest/gtest.h>

#include <fstream>

#include "strata/core/error.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace strata::tools {
namespace {

using Hosts = std::vector<Host>;

TEST(HostsOptionTest, NamesAddressesAndNumbers) {
  EXPECT_EQ(parse_hosts("h1"), (Hosts{{"h1", "h1", 1}}));
  EXPECT_EQ(parse_hosts("h1:2,me@h2:3"), (Hosts{{"h1", "h1", 2}, {"me@h2", "h2", 3}}));
  EXPECT_EQ(parse_hosts("h1=10.0.0.3:2,me@h2=h2-ib"),
            (Hosts{{"h1", "10.0.0.3", 2}, {"me@h2", "h2-ib", 1}}));
  EXPECT_EQ(parse_hosts("[fd00::1]:2,me@[fe80::2%eth0],h3=[fd00::3]"),
            (Hosts{{"fd00::1", "fd00::1", 2},
                   {"me@fe80::2%eth0", "fe80::2%eth0", 1},
                   {"h3", "fd00::3", 1}}));
  EXPECT_EQ(parse_hosts("localhost:4"), (Hosts{{"localhost", "localhost", 4}}));
}

TEST(HostsOptionTest, ErrorsQuoteThePart) {
  const auto expect = [](const std::string& list, const std::string& what) {
    expect_error([&] { (void)parse_hosts(list); },
                 "[strata launch] hosts: got " + what +
                     "; expected hosts with their numbers of workers, as h1:2,h2:2");
  };
  expect("", "\"\", which names no host");
  expect("h1,", "\"\", which names no host");
  expect("h1:", "\"h1:\", whose number of workers is none");
  expect("h1:0", "\"h1:0\", whose number of workers is none");
  expect("h1:2x", "\"h1:2x\", whose number of workers is none");
  expect("h1:70000", "\"h1:70000\", whose number of workers is none");
  expect("fd00::1", "\"fd00::1\" with several ':'; an IPv6 address is written [fd00::1]:2");
  expect("[fd00::1", "\"[fd00::1\" with '[' and no ']'");
  expect("[]:1", "\"[]:1\", which has no IPv6 address between [ and ]");
  expect("[::1]2", "\"[::1]2\", whose number of workers is none");
  expect("=h1", "\"=h1\", where no name for ssh is in front of '='");
  expect("@h1", "\"@h1\", which names no user");
  expect("a b", "\"a b\", which names no host");
  expect("h1,h2:2,h1:3", "\"h1\" twice; write h1:4");
  for (const char* list : {"localhost,h2", "h2,127.0.0.1"}) {
    EXPECT_THROW((void)parse_hosts(list), Error) << list;
  }
  // Nothing that ssh would take for an option, or a shell for its own.
  for (const char* list :
       {"-oProxyCommand=x", "h1;id", "$(id)", "`id`", "-h", "me@-h", "-u@h1", "a\nb", "-x=h1"}) {
    EXPECT_THROW((void)parse_hosts(list), Error) << list;
  }
}

TEST(HostsOptionTest, AFileWithAHostALine) {
  const test::TempFolder folder;
  const std::string path = folder.path() + "/hosts";
  std::ofstream(path) << "# mine\nh1 slots=2\n\n  me@h2:3   # that one\nh3\n";
  EXPECT_EQ(read_host_file(path), (Hosts{{"h1", "h1", 2}, {"me@h2", "h2", 3}, {"h3", "h3", 1}}));
  std::ofstream(path) << "h1 max_slots=2\n";
  expect_error_containing([&] { (void)read_host_file(path); }, ErrorCode::kInvalidArgument,
                          "got \"h1 max_slots=2\" in " + path + "; a line is h1:2 or h1 slots=2");
  std::ofstream(path) << "# none\n";
  expect_error_containing([&] { (void)read_host_file(path); }, ErrorCode::kInvalidArgument,
                          "which names no host");
  EXPECT_THROW((void)read_host_file(folder.path() + "/absent"), Error);
}

}  // namespace
}  // namespace strata::tools
