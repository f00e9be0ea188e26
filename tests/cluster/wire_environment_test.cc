// Which wire a server is told to use, and what cannot be.
#include "cluster/wire_environment.h"

#include <gtest/gtest.h>

#include "cluster/make_transport.h"
#include "support/expect_error.h"
#include "wire/ucx/ucx_transport.h"

namespace strata::cluster {
namespace {

Environment with(const std::string& wire) {
  return Environment(std::map<std::string, std::string, std::less<>>{{"STRATA_WIRE", wire}});
}

TEST(WireEnvironmentTest, TheVariableNamesTheWire) {
  EXPECT_EQ(wire_from_environment(Environment()), std::nullopt);
  EXPECT_EQ(wire_from_environment(with("ucx")), "ucx");
  expect_error([] { wire_from_environment(with("UCX")); }, ErrorCode::kInvalidArgument,
               "[cluster] STRATA_WIRE: got wire='UCX'; expected 'socket' or 'ucx'");
}

TEST(MakeTransportTest, TheOptionNamesTheWire) {
  EXPECT_NE(make_transport({}), nullptr);
  EXPECT_NE(make_transport({.wire = "socket"}), nullptr);
  if (wire::has_ucx_transport()) {
    EXPECT_NE(make_transport({.wire = "ucx"}), nullptr);
  } else {
    expect_error_containing([] { make_transport({.wire = "ucx"}); }, ErrorCode::kUnimplemented,
                            "this build has no UCX");
  }
  expect_error([] { make_transport({.wire = "rdma"}); }, ErrorCode::kInvalidArgument,
               "[cluster] Server: got wire='rdma'; expected 'socket' or 'ucx'");
}

TEST(MakeTransportTest, OneTransportIsEnough) {
  const auto transport = make_transport({});
  EXPECT_EQ(make_transport({.transport = transport}), transport);
  expect_error([&] { make_transport({.wire = "socket", .transport = transport}); },
               ErrorCode::kInvalidArgument,
               "[cluster] Server: got the wire \"socket\" and a transport; give it one of them");
}

TEST(MakeTransportTest, UcxDoesNotEncrypt) {
  expect_error(
      [] { make_transport({.tls = wire::TlsOptions(), .wire = "ucx"}); },
      ErrorCode::kInvalidArgument,
      "[cluster] Server: got TLS over the wire \"ucx\", which does not encrypt; take the wire "
      "\"socket\", or, on a network that you trust, leave out the certificates "
      "(ServerOptions::tls, STRATA_TLS_DIR)");
}

}  // namespace
}  // namespace strata::cluster
