// The kernels' name in checkpoints: other kernels round otherwise.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "strata/checkpoint/checkpoint.h"
#include "strata/core/file_system.h"
#include "strata/core/log.h"
#include "strata/data/dataset.h"
#include "strata/kernels/cpu_kernels.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/devices.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/expect_error.h"
#include "support/replicas.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

class CheckpointKernelsTest : public testing::Test {
 protected:
  CheckpointKernelsTest() {
    Checkpoint({{"weight", weight_}, {"optimizer", adam_}}).save(folder_.path() + "/ckpt");
  }
  ~CheckpointKernelsTest() override { ::unsetenv("STRATA_KERNELS_MISMATCH"); }

  checkpoint::Manifest manifest() const { return checkpoint::read_manifest(path_); }
  void set_kernels(const std::string& name) const {
    checkpoint::Manifest changed = manifest();
    changed.plan.kernels = name;
    std::ofstream(path_ + "/" + checkpoint::kManifestFile) << checkpoint::write_manifest(changed);
  }
  /// To evaluate.
  double restored() {
    weight_.assign(at::zeros({2}));
    Checkpoint({{"weight", weight_}}).restore(path_).expect_partial();
    return weight_.value().sum().item<double>();
  }
  /// To go on training.
  double continued() {
    weight_.assign(at::zeros({2}));
    Checkpoint({{"weight", weight_}, {"optimizer", adam_}}).restore(path_).assert_consumed();
    return weight_.value().sum().item<double>();
  }

  const test::TempFolder folder_;
  const std::string path_ = folder_.path() + "/ckpt-1";
  Variable weight_{at::full({2}, 3.0)};
  optimizers::Adam adam_;
};

TEST_F(CheckpointKernelsTest, ManifestsHaveTheirName) {
  EXPECT_EQ(manifest().plan.kernels, kernels::kernel_table_name());
  EXPECT_EQ(restored(), 6);
}

TEST_F(CheckpointKernelsTest, OldCheckpointsHaveNone) {
  set_kernels("");
  const std::string text = read_file(path_ + "/" + checkpoint::kManifestFile);
  EXPECT_EQ(text.find("kernels"), std::string::npos);
  EXPECT_EQ(restored(), 6);
}

TEST_F(CheckpointKernelsTest, WeightsAloneAreRestoredWithALineInTheLog) {
  set_kernels("another-row/1");
  std::string log;
  const LogSink old =
      set_log_sink([&](const LogRecord& record) { log += std::string(record.message); });
  const int verbosity = log_verbosity();
  set_log_verbosity(static_cast<int>(LogLevel::kInfo));
  EXPECT_EQ(restored(), 6);
  set_log_verbosity(verbosity);
  set_log_sink(old);
  EXPECT_NE(log.find("was saved with the kernels 'another-row/1'"), std::string::npos) << log;
}

TEST_F(CheckpointKernelsTest, AnObjectThatContinuesTheRunIsRefusedWhenItComesLater) {
  set_kernels("another-row/1");
  Checkpoint checkpoint({{"weight", weight_}});
  checkpoint.restore(path_).expect_partial();
  expect_error_containing([&] { checkpoint.add("optimizer", adam_); },
                          ErrorCode::kFailedPrecondition, "which round otherwise");
  EXPECT_EQ(adam_.iterations(), 0);
}

TEST_F(CheckpointKernelsTest, PlacesInTheInputContinueARun) {
  data::Dataset numbers = data::Dataset::range(5);
  data::Iterator iterator = numbers.iterator();
  Checkpoint({{"input", iterator}}).save(folder_.path() + "/input");
  const std::string file = folder_.path() + "/input-1/" + checkpoint::kManifestFile;
  checkpoint::Manifest changed = checkpoint::read_manifest(folder_.path() + "/input-1");
  changed.plan.kernels = "another-row/1";
  std::ofstream(file) << checkpoint::write_manifest(changed);
  expect_error_containing(
      [&] {
        Checkpoint({{"input", iterator}}).restore(folder_.path() + "/input-1");
      },
      ErrorCode::kFailedPrecondition, "which round otherwise");
}

TEST_F(CheckpointKernelsTest, OthersAreRefusedUnlessAllowed) {
  set_kernels("another-row/1");
  expect_error_containing([&] { continued(); }, ErrorCode::kFailedPrecondition,
                          "ckpt-1 was saved with the kernels 'another-row/1', and this process "
                          "has '" +
                              kernels::kernel_table_name() + "', which round otherwise");
  EXPECT_EQ(weight_.value().sum().item<double>(), 0);  // nothing was written

  ::setenv("STRATA_KERNELS_MISMATCH", "allow", 1);
  std::string log;
  const LogSink old =
      set_log_sink([&](const LogRecord& record) { log += std::string(record.message); });
  EXPECT_EQ(continued(), 6);
  set_log_sink(old);
  EXPECT_NE(log.find("another-row/1"), std::string::npos) << log;
  EXPECT_NE(log.find("the bits of what follows may differ"), std::string::npos) << log;

  ::setenv("STRATA_KERNELS_MISMATCH", "maybe", 1);
  expect_error_containing([&] { continued(); }, ErrorCode::kInvalidArgument,
                          "STRATA_KERNELS_MISMATCH: got 'maybe'; expected allow or refuse");
}

TEST_F(CheckpointKernelsTest, PortableBitsHaveOneNameEverywhere) {
  set_logical_devices("cpu", 2);
  MirroredStrategy strategy({.devices = cpus(2), .seed = 5, .replicas = {.bits = "portable"}});
  const Variable variable = strategy.scope([] { return Variable(at::zeros({2})); });
  Checkpoint({{"weight", variable}}).save(folder_.path() + "/portable");
  EXPECT_EQ(checkpoint::read_manifest(folder_.path() + "/portable-1").plan.kernels.substr(0, 9),
            "portable/");
}

}  // namespace
}  // namespace strata
