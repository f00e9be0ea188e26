// What a living process works on is left alone, what a dead one left is removed: the two are told
// apart by a lock, whatever process numbers there are.
#include "checkpoint/temporary_folder.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "checkpoint/writer.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;

/// The disk, without locks.
class NoLocks final : public FileSystem {
 public:
  std::unique_ptr<ReadableFile> open(const std::string& p) const override { return disk().open(p); }
  std::unique_ptr<WritableFile> create(const std::string& p) const override {
    return disk().create(p);
  }
  std::optional<FileInfo> info(const std::string& p) const override { return disk().info(p); }
  std::vector<std::string> list(const std::string& p) const override { return disk().list(p); }
  void make_folders(const std::string& p) const override { disk().make_folders(p); }
  void rename(const std::string& from, const std::string& to) const override {
    disk().rename(from, to);
  }
  void remove(const std::string& p) const override { disk().remove(p); }
  void sync_folder(const std::string& p) const override { disk().sync_folder(p); }

 private:
  static const FileSystem& disk() { return local_file_system(); }
};

class ScratchTest : public ::testing::Test {
 protected:
  const FileSystem& files() const { return local_file_system(); }
  std::string folder() const { return folder_.path(); }

  Scratch make(const FileSystem& on) const {
    return make_scratch(on, folder(), "ckpt-1", [&](const std::string& path) {
      on.make_folders(path);
      std::ofstream(path + "/state-00000.safetensors") << "x";
    });
  }

  test::TempFolder folder_;
};

/// A process that makes a scratch folder and keeps it until it is killed.
class Writer {
 public:
  Writer(const std::function<Scratch()>& make, bool own_pids) {
    int ends[2] = {};
    if (::pipe(ends) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      // Where that is not allowed, this is one more process of the same numbers.
      if (own_pids && ::unshare(CLONE_NEWPID) == 0) {
        const pid_t inner = ::fork();
        if (inner != 0) {
          int status = 0;
          ::waitpid(inner, &status, 0);
          ::_exit(0);
        }
      }
      const Scratch scratch = make();
      const pid_t self = ::getpid();
      if (::write(ends[1], &self, sizeof self) < 0) ::_exit(1);
      ::alarm(60);
      while (true) ::pause();
    }
    ::close(ends[1]);
    pid_t inside = 0;
    ready_ = ::read(ends[0], &inside, sizeof inside) == sizeof inside;
    end_ = ends[0];
  }
  ~Writer() { kill(); }

  bool ready() const { return ready_; }
  /// Returns when the writer, also one inside of its own namespace, is gone.
  void kill() {
    if (pid_ <= 0) return;
    const std::string children =
        "/proc/" + std::to_string(pid_) + "/task/" + std::to_string(pid_) + "/children";
    std::ifstream list(children);
    for (pid_t child = 0; list >> child;) ::kill(child, SIGKILL);
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    char byte = 0;
    (void)::read(end_, &byte, 1);  // the last one that held the pipe has closed it
    ::close(end_);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
  int end_ = -1;
  bool ready_ = false;
};

TEST_F(ScratchTest, WhatALivingProcessWritesIsLeftAloneInAnyNamespace) {
  for (const bool own_pids : {false, true}) {
    Writer writer([&] { return make(files()); }, own_pids);
    ASSERT_TRUE(writer.ready());
    ASSERT_EQ(files().list(folder()).size(), 1U);
    clean_up(files(), folder());
    EXPECT_EQ(files().list(folder()).size(), 1U) << own_pids;
    writer.kill();
    clean_up(files(), folder());
    EXPECT_TRUE(files().list(folder()).empty()) << own_pids;
  }
}

TEST_F(ScratchTest, WhatThisProcessWritesIsLeftAlone) {
  std::optional<Scratch> scratch = make(files());
  clean_up(files(), folder());
  EXPECT_TRUE(fs::exists(scratch->path));
  // The lock goes along with the name.
  const std::string old = folder() + "/" + make_scratch_name(ScratchKind::kReplaced, "ckpt-1");
  fs::rename(scratch->path, old);
  clean_up(files(), folder());
  EXPECT_TRUE(fs::exists(old));
  scratch.reset();
  clean_up(files(), folder());
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(folder() + "/ckpt-1"));  // put back
}

void make_two_days_old(const std::string& path) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(48));
}

TEST_F(ScratchTest, WithoutLocksWhatIsYoungIsLeftAlone) {
  const NoLocks without;
  const std::string path = make(without).path;
  clean_up(without, folder());
  EXPECT_TRUE(fs::exists(path));
  make_two_days_old(path);
  clean_up(without, folder());
  EXPECT_TRUE(files().list(folder()).empty());
}

TEST_F(ScratchTest, WhatAnotherKernelMadeIsLeftAloneWhileItIsYoung) {
  // Its locks may not be seen here. The second is of a version that wrote process numbers.
  for (const char* name : {"/.tmp-00112233aabbccdd-5f-1@far@ckpt-1", "/.tmp-1-1-1@near@ckpt-1"}) {
    const std::string path = folder() + name;
    fs::create_directory(path);
    clean_up(files(), folder());
    EXPECT_TRUE(fs::exists(path));
    make_two_days_old(path);
    clean_up(files(), folder());
    EXPECT_FALSE(fs::exists(path));
  }
}

TEST_F(ScratchTest, CleaningUpNeverTakesAFileFromItsWriter) {
  std::atomic<bool> done{false};
  std::vector<std::jthread> cleaners;
  for (int i = 0; i < 2; ++i) {
    cleaners.emplace_back([&] {
      while (!done) clean_up(files(), folder());
    });
  }
  for (int i = 0; i < 300; ++i) {
    const std::string text = std::to_string(i);
    ASSERT_NO_THROW(write_file_atomically(folder() + "/note.json", text));
    ASSERT_EQ(read_file(folder() + "/note.json"), text);
  }
  done = true;
  cleaners.clear();
  EXPECT_EQ(files().list(folder()), std::vector<std::string>{"note.json"});
}

TEST_F(ScratchTest, FilesThatADeadProcessLeftAreRemovedByTheNextOfThatName) {
  for (const char* name : {"note.json", "other.json"}) {
    std::ofstream(folder() + "/" + make_scratch_name(ScratchKind::kTemporary, name)) << "half";
  }
  write_file_atomically(folder() + "/note.json", "whole");
  const auto left = files().list(folder());
  ASSERT_EQ(left.size(), 2U);
  EXPECT_TRUE(left[0].ends_with("@other.json"));
}

TEST_F(ScratchTest, ErrorsNameWhatTheUserGave) {
  const std::string path = folder() + "/missing/note.json";
  expect_error([&] { write_file_atomically(path, "x"); }, ErrorCode::kNotFound,
               "[core] write: " + path + ": there is no folder " + folder() +
                   "/missing; make it, or choose another place");
  fs::create_directories(folder() + "/taken.json/inside");
  expect_error_containing([&] { write_file_atomically(folder() + "/taken.json", "x"); },
                          ErrorCode::kFailedPrecondition, folder() + "/taken.json");
  for (const std::string& entry : files().list(folder())) {
    EXPECT_FALSE(entry.starts_with(".tmp-")) << entry;
  }
}

}  // namespace
}  // namespace strata::checkpoint
