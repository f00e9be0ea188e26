// What removes the folders of dead processes, beside saves: no checkpoint loses a file to it.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/temporary_folder.h"
#include "checkpoint/writer.h"
#include "support/temp_folder.h"

namespace strata::checkpoint {
namespace {

constexpr const char* kShard = "state-00000.safetensors";

Snapshot small_snapshot() {
  Snapshot snapshot;
  snapshot.manifest.shards.push_back({.file = kShard});
  snapshot.shards.push_back({.header = "any bytes"});
  return snapshot;
}

/// Calls `clean_up` on `folder` by several threads until it is destroyed. A lock is held by an open
/// file, not by a process: threads exclude one another as processes do.
class Cleaners {
 public:
  explicit Cleaners(const std::string& folder) {
    for (int i = 0; i < 2; ++i) {
      threads_.emplace_back([this, folder](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          clean_up(local_file_system(), folder);
          ++rounds_;
        }
      });
    }
  }

  int64_t rounds() const { return rounds_; }

 private:
  std::atomic<int64_t> rounds_{0};
  std::vector<std::jthread> threads_;
};

/// Saves under `name_of(i)` until cleaners came by often enough, and checks each.
void save_beside_cleaners(const std::string& folder,
                          const std::function<std::string(int)>& name_of) {
  const FileSystem& files = local_file_system();
  const Cleaners cleaners(folder);
  for (int i = 0; i < 200 || cleaners.rounds() < 200; ++i) {
    const std::string path = join_path(folder, name_of(i));
    Snapshot snapshot = small_snapshot();
    ASSERT_NO_THROW(write_checkpoint(path, snapshot)) << i;
    ASSERT_TRUE(files.info(join_path(path, kShard))) << i;
    ASSERT_TRUE(files.info(join_path(path, kManifestFile))) << i;
    if (i >= 3) {
      const std::string older = join_path(folder, name_of(i - 3));
      if (older != path) discard_checkpoint(files, older);
    }
  }
}

TEST(CommitRaceTest, ANewCheckpointKeepsItsFiles) {
  const test::TempFolder folder;
  save_beside_cleaners(folder.path(), [](int i) { return "ckpt-" + std::to_string(i); });
}

TEST(CommitRaceTest, ACheckpointThatIsReplacedKeepsItsFiles) {
  const test::TempFolder folder;
  save_beside_cleaners(folder.path(), [](int) { return "ckpt-1"; });
}

}  // namespace
}  // namespace strata::checkpoint
