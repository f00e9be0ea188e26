// Ten kinds of damage, and more: each ends in the last good checkpoint or in a clear error, and
// nothing older is lost.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "checkpoint/describe.h"
#include "checkpoint/temporary_folder.h"
#include "strata/checkpoint/checkpoint_manager.h"
#include "strata/core/file_system.h"
#include "strata/core/log.h"
#include "support/faulty_file_system.h"
#include "support/replicas.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::Fault;
using test::faulty_disk;

/// A run that saved three times: step 1, 2, 3.
class DamageTest : public testing::Test {
 protected:
  DamageTest()
      : old_(set_log_sink(
            [this](const LogRecord& record) { log_ += std::string(record.message) + "\n"; })) {
    for (step_ = 1; step_ <= 3; ++step_) {
      weight_.assign(static_cast<double>(step_));
      (void)manager_.save();
    }
    shard_ = run_ + "/ckpt-3/state-00000.safetensors";
    manifest_ = run_ + "/ckpt-3/manifest.json";
  }
  ~DamageTest() override {
    set_log_sink(old_);
    faulty_disk().stop();
  }

  /// Starts anew, and expects step `step` and a warning that says `why`.
  void expect_fallback(int64_t step, const std::string& why) {
    weight_.assign(-1.0);
    step_ = -1;
    log_.clear();
    Checkpoint checkpoint(objects());
    CheckpointManager manager(checkpoint, run_);
    const auto path = manager.restore_or_initialize();
    ASSERT_TRUE(path.has_value());
    EXPECT_EQ(*path, run_ + "/ckpt-" + std::to_string(step));
    EXPECT_EQ(step_, step);
    EXPECT_EQ(weight_.value().max().item<double>(), static_cast<double>(step));
    if (!why.empty()) {
      EXPECT_NE(log_.find(run_ + "/ckpt-3"), std::string::npos) << log_;
      EXPECT_NE(log_.find(why), std::string::npos) << log_;
    } else {
      EXPECT_EQ(log_, "");
    }
    // And the run goes on from there.
    ++step_;
    EXPECT_TRUE(manager.save().has_value());
    EXPECT_EQ(*manager.latest_checkpoint(), run_ + "/ckpt-" + std::to_string(step + 1));
  }

  /// The same, said by restore itself.
  void expect_error(ErrorCode code, const std::string& what) {
    weight_.assign(-1.0);
    Checkpoint checkpoint(objects());
    EXPECT_TRUE(throws(code, {what}, [&] { (void)checkpoint.restore(run_ + "/ckpt-3"); }));
    EXPECT_EQ(weight_.value().max().item<double>(), -1);
    std::ostringstream out;
    EXPECT_FALSE(describe_checkpoint(run_ + "/ckpt-3", out));
    EXPECT_NE(out.str().find(what), std::string::npos) << out.str();
  }

  Checkpoint::Objects objects() { return {{"weight", weight_}, {"step", step_}}; }

  /// Changes bytes of a file.
  static void edit(const std::string& path, const std::function<void(std::string&)>& change) {
    std::string bytes = read_file(path);
    change(bytes);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  test::TempFolder folder_;
  std::string run_ = folder_.path() + "/run";
  Variable weight_{at::zeros({1000}), {.name = "w"}};
  int64_t step_ = 0;
  Checkpoint checkpoint_{objects()};
  CheckpointManager manager_{checkpoint_, run_};
  std::string shard_, manifest_;
  std::string log_;
  LogSink old_;
};

TEST_F(DamageTest, NothingIsDamaged) {
  std::ostringstream out;
  EXPECT_TRUE(describe_checkpoint(run_ + "/ckpt-3", out));
  EXPECT_NE(out.str().find("all checksums are right"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("weight"), std::string::npos);
  EXPECT_TRUE(is_checkpoint(run_ + "/ckpt-3"));
  EXPECT_FALSE(is_checkpoint(run_));
  expect_fallback(3, "");
}

TEST_F(DamageTest, Truncation) {
  fs::resize_file(shard_, 1234);
  expect_error(ErrorCode::kDataLoss, "state-00000.safetensors: got 1234 bytes; expected ");
  expect_fallback(2, "(cut short)");
}

TEST_F(DamageTest, TruncatedManifest) {
  fs::resize_file(manifest_, 100);
  expect_error(ErrorCode::kDataLoss, "manifest.json: got what is not a manifest");
  expect_fallback(2, "manifest.json: got what is not a manifest");
}

TEST_F(DamageTest, EmptyManifest) {
  fs::resize_file(manifest_, 0);
  expect_error(ErrorCode::kDataLoss, "manifest.json: got what is not a manifest");
  expect_fallback(2, "manifest.json");
}

TEST_F(DamageTest, FlippedBit) {
  edit(shard_, [](std::string& bytes) { bytes[bytes.size() - 5] ^= 0x10; });
  expect_error(ErrorCode::kDataLoss, "got bytes whose SHA-256 is ");
  expect_fallback(2, "the file was changed");
}

TEST_F(DamageTest, FlippedBitInTheManifest) {
  edit(manifest_, [](std::string& bytes) { bytes[bytes.find("\"number\": 3") + 10] ^= 1; });
  expect_error(ErrorCode::kDataLoss, "manifest.json: got bytes whose SHA-256 is ");
  expect_fallback(2, "manifest.json");
}

TEST_F(DamageTest, EveryPartOfTheManifestCounts) {
  const std::string bytes = read_file(manifest_);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    edit(manifest_, [&](std::string& text) {
      text = bytes;
      text[i] ^= 4;
    });
    Checkpoint checkpoint(objects());
    EXPECT_THROW((void)checkpoint.restore(run_ + "/ckpt-3"), Error) << i;
  }
}

TEST_F(DamageTest, MissingShard) {
  fs::remove(shard_);
  expect_error(ErrorCode::kDataLoss, "state-00000.safetensors: got no such shard");
  expect_fallback(2, "got no such shard");
}

TEST_F(DamageTest, AManifestBeyondAllMeasureIsNotRead) {
  fs::resize_file(manifest_, 100'000'001);  // a hole: no room on the disk
  expect_error(ErrorCode::kDataLoss, "manifest.json: got 100000001 bytes; expected at most");
  expect_fallback(2, "manifest.json: got 100000001 bytes");
}

TEST_F(DamageTest, MissingManifest) {
  fs::remove(manifest_);
  expect_error(ErrorCode::kNotFound, "ckpt-3: got no manifest.json");
  expect_fallback(2, "got no manifest.json");
}

TEST_F(DamageTest, WrongVersion) {
  edit(manifest_, [](std::string& bytes) { bytes[bytes.find("\"version\": 1") + 11] = '7'; });
  expect_error(ErrorCode::kUnimplemented,
               "manifest.json: got format version 7; this strata reads 1");
  expect_fallback(2, "got format version 7");
}

TEST_F(DamageTest, ForeignManifest) {
  edit(manifest_, [](std::string& bytes) { bytes = "{\"name\": \"something else\"}\n"; });
  expect_error(ErrorCode::kDataLoss, "manifest.json: got a foreign file");
  expect_fallback(2, "got a foreign file");
}

TEST_F(DamageTest, ForeignShard) {
  edit(shard_, [](std::string& bytes) { std::fill(bytes.begin(), bytes.end(), 'x'); });
  expect_error(ErrorCode::kDataLoss, "got bytes whose SHA-256 is ");
  expect_fallback(2, "the file was changed");
}

TEST_F(DamageTest, ForeignFileInTheCheckpointsPlace) {
  fs::remove_all(run_ + "/ckpt-3");
  std::ofstream(run_ + "/ckpt-3") << "mine";
  expect_error(ErrorCode::kDataLoss, "ckpt-3: got a file; expected a checkpoint");
  Checkpoint checkpoint(objects());
  EXPECT_TRUE(throws(ErrorCode::kAlreadyExists, {"ckpt-3 is a file"},
                     [&] { (void)checkpoint.write(run_ + "/ckpt-3"); }));
  EXPECT_EQ(read_file(run_ + "/ckpt-3"), "mine");
  fs::create_directory(run_ + "/notes");
  std::ofstream(run_ + "/notes/a.txt") << "mine";
  EXPECT_TRUE(throws(ErrorCode::kAlreadyExists, {"holds 'a.txt', which is no part of a checkpoint"},
                     [&] { (void)checkpoint.write(run_ + "/notes"); }));
  EXPECT_EQ(read_file(run_ + "/notes/a.txt"), "mine");
}

TEST_F(DamageTest, SymbolicLinkLoop) {
  fs::remove_all(run_ + "/ckpt-3");
  fs::create_symlink("ckpt-3", run_ + "/ckpt-3");
  expect_error(ErrorCode::kFailedPrecondition, "ckpt-3");
  weight_.assign(-1.0);
  Checkpoint checkpoint(objects());
  CheckpointManager manager(checkpoint, run_);
  EXPECT_EQ(*manager.restore_or_initialize(), run_ + "/ckpt-2");
  EXPECT_EQ(step_, 2);
  EXPECT_NE(log_.find("symbolic link"), std::string::npos) << log_;
  // Saving under the name of the loop is a clear error; under the next one it works.
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition, {"ckpt-3"}, [&] { (void)manager.save(); }));
  EXPECT_EQ(*manager.save({.number = 4}), run_ + "/ckpt-4");
}

TEST_F(DamageTest, LinkedShardsAreFollowed) {
  fs::rename(shard_, folder_.path() + "/elsewhere");
  fs::create_symlink(folder_.path() + "/elsewhere", shard_);
  expect_fallback(3, "");
}

TEST_F(DamageTest, AllAreDamaged) {
  for (int i = 1; i <= 3; ++i) {
    fs::resize_file(run_ + "/ckpt-" + std::to_string(i) + "/state-00000.safetensors", 10);
  }
  Checkpoint checkpoint(objects());
  bool initialized = false;
  CheckpointManager manager(checkpoint, run_, {.init_fn = [&] { initialized = true; }});
  EXPECT_TRUE(throws(ErrorCode::kDataLoss, {"none of them is good", "ckpt-1", "ckpt-2", "ckpt-3"},
                     [&] { (void)manager.restore_or_initialize(); }));
  EXPECT_FALSE(initialized);
}

TEST_F(DamageTest, FullDiskAtEveryOperation) {
  Checkpoint checkpoint(objects());
  CheckpointManager manager(checkpoint, test::on_faulty_disk(run_), {.max_to_keep = 2});
  (void)manager.restore_or_initialize();
  for (int64_t at = 0;; ++at) {
    ASSERT_LT(at, 100);
    faulty_disk().start(Fault::kDiskFull, at);
    ++step_;
    try {
      (void)manager.save();
      faulty_disk().stop();
      break;  // that many operations does a save take
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted) << error.what();
      EXPECT_NE(std::string(error.what()).find("No space left on device"), std::string::npos);
    }
    faulty_disk().stop();
    EXPECT_GE(manager.checkpoints().size(), 3U);
    Checkpoint other(objects());
    int64_t step = step_;
    CheckpointManager reader(other, run_);
    EXPECT_TRUE(reader.restore_or_initialize().has_value());
    EXPECT_GE(step_, 3);
    step_ = step;
  }
}

TEST_F(DamageTest, NoPermissionToWrite) {
  Checkpoint checkpoint(objects());
  CheckpointManager manager(checkpoint, test::on_faulty_disk(run_));
  faulty_disk().start(Fault::kDenied, 0);
  EXPECT_TRUE(throws(ErrorCode::kPermissionDenied, {run_, "Permission denied"},
                     [&] { (void)manager.save(); }));
  // A read-only folder can be read.
  EXPECT_EQ(*manager.restore_or_initialize(), test::on_faulty_disk(run_) + "/ckpt-3");
  faulty_disk().stop();
  expect_fallback(3, "");
}

TEST_F(DamageTest, ReadOnlyFolderForUsersWithoutRights) {
  constexpr auto kReadOnly = fs::perms::owner_read | fs::perms::owner_exec | fs::perms::group_read |
                             fs::perms::group_exec | fs::perms::others_read |
                             fs::perms::others_exec;
  fs::permissions(folder_.path(), kReadOnly);
  fs::permissions(run_, kReadOnly);
  // Root may write everywhere: be somebody else for a while.
  if (::geteuid() == 0) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  int64_t restored = 0;
  const auto denied = throws(ErrorCode::kPermissionDenied, {run_, "Permission denied"}, [&] {
    Checkpoint checkpoint(objects());
    CheckpointManager manager(checkpoint, run_);
    EXPECT_EQ(*manager.restore_or_initialize(), run_ + "/ckpt-3");
    restored = step_;
    (void)manager.save();
  });
  if (::getuid() == 0) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  fs::permissions(run_, fs::perms::owner_all);
  fs::permissions(folder_.path(), fs::perms::owner_all);
  EXPECT_TRUE(denied);
  EXPECT_EQ(restored, 3) << log_;
  expect_fallback(3, "");
}

TEST_F(DamageTest, DeletedDuringSaving) {
  const std::string faulty = test::on_faulty_disk(run_);
  Checkpoint checkpoint(objects());
  faulty_disk().callback = [&] { fs::remove_all(run_); };
  // At the create of the shard, in the middle, at the rename.
  for (const int64_t at : {2, 4, 10}) {
    faulty_disk().start(Fault::kCallback, at);
    EXPECT_TRUE(throws(ErrorCode::kNotFound, {run_}, [&] {
      (void)checkpoint.write(faulty + "/ckpt-4");
    })) << at;
    faulty_disk().stop();
    EXPECT_FALSE(is_checkpoint(run_ + "/ckpt-4"));
  }
  EXPECT_TRUE(checkpoint.write(faulty + "/ckpt-4"));
  EXPECT_TRUE(is_checkpoint(run_ + "/ckpt-4"));
}

TEST_F(DamageTest, WhatADeadProcessLeftIsRemovedAndPutBack) {
  // Nobody holds a lock on it.
  fs::copy(
      run_ + "/ckpt-3",
      run_ + "/" + checkpoint::make_scratch_name(checkpoint::ScratchKind::kTemporary, "ckpt-4"));
  const std::string left = [&] {
    for (const auto& entry : fs::directory_iterator(run_)) {
      const std::string name = entry.path().filename();
      if (name.starts_with(".tmp-")) return name;
    }
    return std::string();
  }();
  ASSERT_FALSE(left.empty());
  // It died between the two renames of a replacement.
  std::string old = left;
  old.replace(0, 5, ".old-");
  old.replace(old.size() - 1, 1, "3");
  fs::rename(run_ + "/ckpt-3", run_ + "/" + old);
  std::string trash = left;
  trash.replace(0, 5, ".trash-");
  fs::copy(run_ + "/ckpt-1", run_ + "/" + trash);
  const std::string local = run_ + "/.tmp-not-ours";
  fs::create_directory(local);

  Checkpoint checkpoint(objects());
  CheckpointManager manager(checkpoint, run_);
  EXPECT_FALSE(fs::exists(run_ + "/" + left));
  EXPECT_FALSE(fs::exists(run_ + "/" + trash));
  EXPECT_TRUE(fs::exists(local));
  EXPECT_EQ(*manager.restore_or_initialize(), run_ + "/ckpt-3");
}

}  // namespace
}  // namespace strata
