#include "strata/core/file_system.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "strata/core/error.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

void write(const std::string& path, std::string_view text) {
  const std::unique_ptr<WritableFile> file = file_system_of(path).create(path);
  file->append(std::as_bytes(std::span(text)));
  file->sync();
  file->close();
}

TEST(LocalFileSystemTest, ReadsBackWhatItWrote) {
  const test::TempFolder folder;
  const std::string path = join_path(folder.path(), "a");
  write(path, "0123456789");
  EXPECT_EQ(read_file(path), "0123456789");
  EXPECT_EQ(local_file_system().info(path)->size, 10U);

  char part[4] = {};
  const auto file = local_file_system().open(path);
  EXPECT_EQ(file->size(), 10U);
  EXPECT_EQ(file->read(7, std::as_writable_bytes(std::span(part))), 3U);
  EXPECT_STREQ(part, "789");

  write(path, "ab");
  EXPECT_EQ(read_file(path), "ab");
}

TEST(LocalFileSystemTest, FoldersAreListedInOrder) {
  const test::TempFolder folder;
  const FileSystem& disk = local_file_system();
  disk.make_folders(join_path(folder.path(), "b/c//d"));
  disk.make_folders(join_path(folder.path(), "b/c"));
  write(join_path(folder.path(), "a"), "");
  EXPECT_EQ(disk.list(folder.path()), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(disk.info(join_path(folder.path(), "b/c/d"))->is_folder);
  disk.sync_folder(folder.path());
}

TEST(LocalFileSystemTest, RenameReplaces) {
  const test::TempFolder folder;
  const std::string from = join_path(folder.path(), "from");
  const std::string to = join_path(folder.path(), "to");
  write(from, "new");
  write(to, "old");
  local_file_system().rename(from, to);
  EXPECT_EQ(read_file(to), "new");
  EXPECT_FALSE(local_file_system().info(from));
  local_file_system().remove(to);
  EXPECT_TRUE(local_file_system().list(folder.path()).empty());
}

TEST(LocalFileSystemTest, ErrorsNameThePathAndTheCause) {
  const test::TempFolder folder;
  const FileSystem& disk = local_file_system();
  const std::string file = join_path(folder.path(), "file");
  const std::string loop = join_path(folder.path(), "loop");
  write(file, "x");
  std::filesystem::create_symlink("loop", loop);

  expect_error_containing([&] { (void)disk.open(join_path(folder.path(), "nothing")); },
                          ErrorCode::kNotFound, "nothing: No such file");
  expect_error_containing([&] { (void)disk.open(folder.path()); }, ErrorCode::kFailedPrecondition,
                          "Is a directory");
  expect_error_containing([&] { (void)disk.open(loop); }, ErrorCode::kFailedPrecondition,
                          "symbolic links");
  expect_error_containing([&] { disk.make_folders(join_path(file, "below")); },
                          ErrorCode::kFailedPrecondition, "Not a directory");
  expect_error_containing([&] { disk.remove(folder.path()); }, ErrorCode::kFailedPrecondition,
                          "not empty");
  EXPECT_FALSE(disk.info(join_path(file, "below")));
}

TEST(LocalFileSystemTest, AFullDiskIsResourceExhausted) {
  const auto full = local_file_system().create("/dev/full");
  expect_error_containing([&] { full->append(std::as_bytes(std::span("x"))); },
                          ErrorCode::kResourceExhausted, "/dev/full: No space left");
}

TEST(FileSystemTest, SchemesGoToTheirFileSystem) {
  expect_error_containing([] { file_system_of("nowhere://bucket/file"); },
                          ErrorCode::kUnimplemented, "register_file_system");
}

}  // namespace
}  // namespace strata
