// Every layer that Keras's golden files know, as a training step on a server without model code: the bits of
// one process.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/thread.h"
#include "standalone/programs.h"
#include "strategies/standalone/server.h"
#include "support/layer_steps.h"

namespace strata {
namespace {

using test::Tensors;

class StandaloneLayersTest : public ::testing::TestWithParam<std::string> {};

TEST_P(StandaloneLayersTest, HaveTheBitsOfOneProcess) {
  standalone::StandaloneServer server({.sessions = 64, .keep = std::chrono::milliseconds(100)});
  const Thread serving("server", [&](const std::stop_token& stop) { server.serve(stop); });
  const Json golden = test::read_layer_family(GetParam());
  for (const Json& test : golden.at("cases").as_array()) {
    if (!test::runs_elsewhere(test)) continue;
    SCOPED_TRACE(test.at("layer").at("class_name").as_string() + " " + test.at("name").as_string());
    try {
      MirroredStrategy here({.devices = {"cpu:0"}, .seed = test::kSeed});
      const Tensors expected = test::train_layer(here, test, false);
      MirroredStrategy there(test::client_of({server.address()}));
      const Tensors found = test::train_layer(there, test, true);
      there.close();
      ASSERT_EQ(found.size(), expected.size());
      EXPECT_EQ(tensor::fingerprint(found), tensor::fingerprint(expected));
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, StandaloneLayersTest,
                         ::testing::ValuesIn(test::layer_families()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace strata
