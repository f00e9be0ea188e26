// The client of PJRT plugins, with XLA's compiler for CPUs on 8 virtual devices.
#include "pjrt/client.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "support/expect_error.h"
#include "support/pjrt_plugin.h"
#include "support/temp_folder.h"

namespace strata::pjrt {
namespace {

using test::pjrt_client;

const ArrayType kFourFloats{.element = ElementType::kFloat, .sizes = {2, 2}};

std::vector<float> to_floats(const Buffer& buffer, size_t count) {
  std::vector<float> result(count);
  buffer.to_host(result.data(), count * sizeof(float));
  return result;
}

/// Doubles its argument; donated if `attribute` says so.
std::string doubling(const std::string& attribute = "") {
  return "module { func.func public @main(%x: tensor<2x2xf32>" + attribute +
         ") -> tensor<2x2xf32> { %y = stablehlo.add %x, %x : tensor<2x2xf32> return %y : "
         "tensor<2x2xf32> } }";
}

TEST(PluginTest, AMissingOneIsAnErrorThatSaysHowToGetOne) {
  expect_error_containing([] { Plugin::open("/no/such/plugin.so"); }, ErrorCode::kNotFound,
                          "[pjrt] open: /no/such/plugin.so does not exist; expected the file of a "
                          "PJRT plugin; scripts/install_pjrt.sh fetches one");
  if (Plugin::path_from_environment()) return;
  expect_error_containing([] { Plugin::open(); }, ErrorCode::kNotFound,
                          "STRATA_PJRT_PLUGIN is not set");
}

TEST(PluginTest, OtherFilesAreRefused) {
  const test::TempFolder folder;
  const std::string text = folder.path() + "/text.so";
  std::ofstream(text) << "no library";
  expect_error_containing([&] { Plugin::open(text); }, ErrorCode::kFailedPrecondition,
                          "cannot be loaded");
  expect_error_containing([] { Plugin::open("/lib/x86_64-linux-gnu/libm.so.6"); },
                          ErrorCode::kFailedPrecondition, "has no GetPjrtApi");
}

TEST(PjrtClientTest, HasTheDevicesThatItsOptionsSay) {
  STRATA_NEEDS_PJRT_PLUGIN();
  EXPECT_EQ(pjrt_client().num_devices(), test::kVirtualDevices);
  EXPECT_EQ(pjrt_client().platform(), "cpu");
  EXPECT_TRUE(pjrt_client().plugin().version().starts_with("0."));
  EXPECT_EQ(Plugin::open().get(), &pjrt_client().plugin());
}

TEST(PjrtClientTest, ArraysComeBackAsTheyWere) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const std::vector<float> values = {1, 2, 3, 4};
  for (const int64_t device : {int64_t{0}, test::kVirtualDevices - 1}) {
    const Buffer buffer = pjrt_client().to_device(values.data(), kFourFloats, device);
    EXPECT_EQ(to_floats(buffer, 4), values);
    std::vector<float> small(3);
    expect_error_containing([&] { buffer.to_host(small.data(), 12); }, ErrorCode::kInvalidArgument,
                            "got memory of 12 bytes for an array of 16");
  }
  const Buffer none =
      pjrt_client().to_device(values.data(), {.element = ElementType::kFloat, .sizes = {0, 2}}, 0);
  EXPECT_TRUE(to_floats(none, 0).empty());
  expect_error([&] { pjrt_client().to_device(values.data(), kFourFloats, test::kVirtualDevices); },
               "[pjrt] to_device: got device 8; expected one of the client's 8");
}

TEST(PjrtClientTest, ProgramsRunAndDonatedArgumentsAreTaken) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const std::vector<float> values = {1, 2, 3, 4}, doubled = {2, 4, 6, 8};
  for (const bool donated : {false, true}) {
    const Executable executable =
        pjrt_client().compile(doubling(donated ? " {tf.aliasing_output = 0 : i32}" : ""));
    EXPECT_EQ(executable.num_results(), 1);
    const Buffer argument = pjrt_client().to_device(values.data(), kFourFloats, 0);
    const auto results = executable.run({{&argument}});
    EXPECT_EQ(to_floats(results[0][0], 4), doubled);
    EXPECT_EQ(argument.is_deleted(), donated);
  }
}

TEST(PjrtClientTest, ReplicasMeetInASum) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const std::string program =
      "module attributes {mhlo.num_replicas = 4 : i32} { func.func public @main(%x: "
      "tensor<2x2xf32>) -> tensor<2x2xf32> { %y = \"stablehlo.all_reduce\"(%x) ({ ^bb0(%a: "
      "tensor<f32>, %b: tensor<f32>): %c = stablehlo.add %a, %b : tensor<f32> stablehlo.return %c "
      ": tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : "
      "(tensor<2x2xf32>) -> tensor<2x2xf32> return %y : tensor<2x2xf32> } }";
  const std::vector<int64_t> devices = {7, 5, 3, 1};
  const Executable executable =
      pjrt_client().compile(program, {.num_replicas = 4, .devices = devices});
  std::vector<Buffer> arguments;
  for (size_t r = 0; r < 4; ++r) {
    const std::vector<float> values(4, static_cast<float>(1 << r));
    arguments.push_back(pjrt_client().to_device(values.data(), kFourFloats, devices[r]));
  }
  const auto results =
      executable.run({{&arguments[0]}, {&arguments[1]}, {&arguments[2]}, {&arguments[3]}});
  for (const auto& each : results) {
    EXPECT_EQ(to_floats(each[0], 4), std::vector<float>(4, 15));
  }
}

TEST(PjrtClientTest, ErrorsHaveThePluginsCodeAndText) {
  STRATA_NEEDS_PJRT_PLUGIN();
  expect_error_containing([] { pjrt_client().compile("module { no text"); }, ErrorCode::kUnknown,
                          "[pjrt] compile: -:1:10: error: custom op 'no' is unknown");
  expect_error([] { pjrt_client().compile(doubling(), {.num_replicas = 9}); },
               "[pjrt] compile: got 9 replicas for 8 devices; expected at most one a device");
  expect_error([] { pjrt_client().compile(doubling(), {.num_replicas = 2, .devices = {1}}); },
               "[pjrt] compile: got 1 devices for 2 replicas; give one a replica, or none");
  const Executable executable = pjrt_client().compile(doubling());
  expect_error(
      [&] {
        executable.run({{}, {}});
      },
      "[pjrt] run: got arguments for 2 replicas; expected 1 lists of one length");
}

}  // namespace
}  // namespace strata::pjrt
