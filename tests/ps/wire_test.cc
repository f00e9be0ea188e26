// Parameter servers over sockets.
#include "ps/tables_by_wire.h"

namespace strata::test {
namespace {

TEST(TablesByWireTest, SocketsAndMemoryGiveTheSameBits) {
  const auto plain = [](const cluster::TaskId&) { return cluster::ServerOptions{}; };
  expect_same(train_by_wire(plain, /*shared=*/false), train_by_wire(plain, /*shared=*/true));
}

}  // namespace
}  // namespace strata::test
