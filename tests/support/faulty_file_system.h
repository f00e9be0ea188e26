#pragma once

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/error.h"
#include "strata/core/file_system.h"

namespace strata::test {

/// What happens at an operation that changes something.
enum class Fault {
  kNone,
  kKill,      ///< SIGKILL, an append after half of its bytes.
  kDiskFull,  ///< kResourceExhausted, an append after half of its bytes; and so on for ever.
  kDenied,    ///< kPermissionDenied.
  kCallback,  ///< Calls `callback`, then goes on.
};

/// The disk, on which the `at`-th changing operation (0 is the first) goes wrong. Operations are
/// create, append, sync, close, make_folders, rename, remove, sync_folder.
struct FaultPlan {
  std::atomic<int64_t> operations{0};
  std::atomic<int64_t> at{-1};
  std::atomic<Fault> fault{Fault::kNone};
  std::function<void()> callback;

  void start(Fault what, int64_t when) {
    operations = 0;
    at = when;
    fault = what;
  }
  void stop() { fault = Fault::kNone; }

  /// @param half  Does half of the operation.
  void step(const std::string& path, const std::function<void()>& half = {}) {
    const int64_t number = operations++;
    const Fault what = fault;
    if (what == Fault::kNone || number < at) return;
    if (what == Fault::kDiskFull) {
      if (half) half();
      throw Error(ErrorCode::kResourceExhausted,
                  str_cat("[core] write: ", path, ": No space left on device"));
    }
    if (what == Fault::kDenied) {
      throw Error(ErrorCode::kPermissionDenied,
                  str_cat("[core] write: ", path, ": Permission denied"));
    }
    if (number > at) return;
    if (what == Fault::kCallback) return callback();
    if (half) half();
    ::kill(::getpid(), SIGKILL);
  }
};

class FaultyFileSystem final : public FileSystem {
 public:
  FaultyFileSystem(std::string scheme, std::shared_ptr<FaultPlan> plan)
      : scheme_(std::move(scheme) + "://"), plan_(std::move(plan)) {}

  std::unique_ptr<ReadableFile> open(const std::string& path) const override {
    return disk().open(real(path));
  }
  std::unique_ptr<WritableFile> create(const std::string& path) const override {
    plan_->step(path);
    return std::make_unique<File>(disk().create(real(path)), path, plan_);
  }
  std::optional<FileInfo> info(const std::string& path) const override {
    return disk().info(real(path));
  }
  std::vector<std::string> list(const std::string& folder) const override {
    return disk().list(real(folder));
  }
  void make_folders(const std::string& folder) const override {
    plan_->step(folder);
    disk().make_folders(real(folder));
  }
  void rename(const std::string& from, const std::string& to) const override {
    plan_->step(from);
    disk().rename(real(from), real(to));
  }
  void remove(const std::string& path) const override {
    plan_->step(path);
    disk().remove(real(path));
  }
  void sync_folder(const std::string& folder) const override {
    plan_->step(folder);
    disk().sync_folder(real(folder));
  }
  PathLock try_lock(const std::string& path) const override { return disk().try_lock(real(path)); }

 private:
  class File final : public WritableFile {
   public:
    File(std::unique_ptr<WritableFile> file, std::string path, std::shared_ptr<FaultPlan> plan)
        : file_(std::move(file)), path_(std::move(path)), plan_(std::move(plan)) {}
    void append(std::span<const std::byte> bytes) override {
      plan_->step(path_, [&] { file_->append(bytes.first(bytes.size() / 2)); });
      file_->append(bytes);
    }
    void sync() override {
      plan_->step(path_);
      file_->sync();
    }
    void close() override {
      plan_->step(path_);
      file_->close();
    }

   private:
    std::unique_ptr<WritableFile> file_;
    std::string path_;
    std::shared_ptr<FaultPlan> plan_;
  };

  static const FileSystem& disk() { return local_file_system(); }
  std::string real(const std::string& path) const {
    return path.starts_with(scheme_) ? path.substr(scheme_.size()) : path;
  }

  const std::string scheme_;
  const std::shared_ptr<FaultPlan> plan_;
};

/// The plan of the faulty disk, which is registered once a process, by the first who asks.
inline FaultPlan& faulty_disk() {
  static const std::shared_ptr<FaultPlan> plan = [] {
    auto made = std::make_shared<FaultPlan>();
    register_file_system("faulty", std::make_unique<FaultyFileSystem>("faulty", made));
    return made;
  }();
  return *plan;
}

/// `path` on the faulty disk, which is there from then on.
inline std::string on_faulty_disk(const std::string& path) {
  (void)faulty_disk();
  return "faulty://" + path;
}

}  // namespace strata::test
