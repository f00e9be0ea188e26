#include "wire/address.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace strata::wire {
namespace {

TEST(AddressTest, ReadsNamesAndNumbers) {
  EXPECT_EQ(Address::parse("worker-1.example:2222"), (Address{"worker-1.example", 2222}));
  EXPECT_EQ(Address::parse("10.0.0.3:0"), (Address{"10.0.0.3", 0}));
  EXPECT_EQ(Address::parse("[::1]:65535"), (Address{"::1", 65535}));
  for (const char* text : {"a:1", "[fe80::1%eth0]:22", "127.0.0.1:65535"})
    EXPECT_EQ(Address::parse(text).to_string(), text);
}

TEST(AddressTest, QuotesWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "[wire] address: got \"\"; expected host:port or [IPv6]:port"},
      {"worker", "[wire] address: got \"worker\"; expected host:port or [IPv6]:port"},
      {"[::1", "[wire] address: got \"[::1\"; expected host:port or [IPv6]:port"},
      {":80", "[wire] address: got \":80\", whose host has 0 characters; expected 1 to 255"},
      {"::1:80",
       "[wire] address: got \"::1:80\"; an IPv6 address is written in brackets: [::1]:port"},
      {"a b:80", "[wire] address: got \"a b:80\"; the host \"a b\" is no name and no address"},
      {"[::1]", "[wire] address: got \"[::1]\", which has no port; expected host:port"},
      {"a:", "[wire] address: got \"a:\", which has no port; expected host:port"},
      {"a:http",
       "[wire] address: got \"a:http\" with port \"http\"; expected a number from 0 to 65535"},
      {"a:65536",
       "[wire] address: got \"a:65536\" with port \"65536\"; expected a number from 0 to 65535"},
      {"a:-1", "[wire] address: got \"a:-1\" with port \"-1\"; expected a number from 0 to 65535"},
  };
  for (const auto& [text, message] : cases) expect_error([&] { Address::parse(text); }, message);
}

}  // namespace
}  // namespace strata::wire
