// Over UCX; only where this build has it.
#include "ps/tables_by_wire.h"

namespace strata::test {
namespace {

TEST(TablesByUcxTest, ItsBitsAreThoseOfSockets) {
  const auto plain = [](const cluster::TaskId&) { return cluster::ServerOptions{}; };
  const auto ucx = [](const cluster::TaskId&) { return cluster::ServerOptions{.wire = "ucx"}; };
  expect_same(train_by_wire(ucx, false), train_by_wire(plain, false));
}

}  // namespace
}  // namespace strata::test
