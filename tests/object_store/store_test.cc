// Object stores as file systems, against a server of our own that checks signatures and tokens and
// spoils requests, and against moto, which others wrote.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/object_store/object_file_system.h"
#include "object_store/store_server.h"
#include "strata/core/file_system.h"
#include "support/expect_error.h"

namespace strata {
namespace {

using test::StoreServer;
using Variables = std::map<std::string, std::string>;

std::unique_ptr<const FileSystem> store(const std::string& scheme, Variables variables) {
  return object_store::make_file_system(scheme, [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Variables s3_variables(const std::string& endpoint) {
  return {{"AWS_ENDPOINT_URL", endpoint},
          {"AWS_ACCESS_KEY_ID", "the key"},
          {"AWS_SECRET_ACCESS_KEY", "the/secret"},
          {"STRATA_STORE_STALL_S", "1"}};
}
const std::vector<std::string> kS3Options = {"--key", "the key", "--secret", "the/secret"};

std::string random_text(size_t size, unsigned seed = 1) {
  std::mt19937_64 random(seed);
  std::string text(size, 0);
  for (char& each : text) each = static_cast<char>(random());
  return text;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

void write(const FileSystem& files, const std::string& path, const std::string& text) {
  const auto file = files.create(path);
  file->append(bytes_of(text));
  file->close();
}

std::string read(const FileSystem& files, const std::string& path) {
  const auto file = files.open(path);
  std::string text(file->size(), 0);
  text.resize(file->read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

struct Kind {
  std::string name;
  std::string scheme;
  std::vector<std::string> options;
  std::function<Variables(const std::string& endpoint)> variables;
  test::StoreMaker maker = test::StoreMaker::kOurs;
};

std::vector<Kind> kinds() {
  std::vector<Kind> all = {
      {"s3", "s3", kS3Options, s3_variables},
      {"gs_key",
       "gs",
       {"--key", "id", "--secret", "s", "--region", "auto"},
       [](const std::string& endpoint) {
         return Variables{{"STORAGE_EMULATOR_HOST", endpoint},
                          {"GS_ACCESS_KEY_ID", "id"},
                          {"GS_SECRET_ACCESS_KEY", "s"}};
       }},
      {"gs_token",
       "gs",
       {"--token", "the.token"},
       [](const std::string& endpoint) {
         return Variables{{"STORAGE_EMULATOR_HOST", endpoint},
                          {"GOOGLE_OAUTH_ACCESS_TOKEN", "the.token"}};
       }},
  };
  Kind faulty = all[0];
  faulty.name = "s3_with_faults";
  faulty.options.insert(faulty.options.end(), {"--faults", "15", "--silence", "3"});
  all.push_back(faulty);
  faulty.name = "moto_with_faults";
  faulty.maker = test::StoreMaker::kMoto;
  all.push_back(faulty);
  all.push_back({"moto", "s3", {}, s3_variables, test::StoreMaker::kMoto});
  return all;
}

class StoreTest : public testing::TestWithParam<Kind> {
 protected:
  std::string at(const std::string& key) const { return GetParam().scheme + "://bucket/" + key; }

  void SetUp() override {
    if (GetParam().maker == test::StoreMaker::kMoto && StoreServer::python_of_moto().empty()) {
      GTEST_SKIP() << StoreServer::kNoMoto;
    }
    server_ = std::make_unique<StoreServer>(GetParam().options, GetParam().maker);
    files_ = store(GetParam().scheme, GetParam().variables(server_->endpoint()));
  }

  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<const FileSystem> files_;
};

TEST_P(StoreTest, KeepsFiles) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{70'000}}) {
    const std::string text = random_text(size);
    write(*files_, at("a/file"), text);
    EXPECT_EQ(read(*files_, at("a/file")), text);
    const auto info = files_->info(at("a/file"));
    ASSERT_TRUE(info);
    EXPECT_FALSE(info->is_folder);
    EXPECT_EQ(info->size, size);
    const auto age = std::chrono::system_clock::now().time_since_epoch() -
                     std::chrono::nanoseconds(info->modified_ns);
    EXPECT_LT(age, std::chrono::minutes(2));
  }
}

TEST_P(StoreTest, SendsLargeFilesInParts) {
  const std::string text = random_text((size_t{27} << 20) + 5);
  const auto file = files_->create(at("large"));
  for (size_t begin = 0; begin < text.size(); begin += 3'000'000) {
    file->append(bytes_of(text).subspan(begin, std::min<size_t>(3'000'000, text.size() - begin)));
  }
  file->sync();
  file->close();
  EXPECT_EQ(read(*files_, at("large")), text);
  const auto back = files_->open(at("large"));
  std::string again;
  while (true) {  // as readers of records do
    std::string piece(1'000'003, 0);
    piece.resize(back->read(again.size(), std::as_writable_bytes(std::span(piece))));
    if (piece.empty()) break;
    again += piece;
  }
  EXPECT_EQ(again, text);
}

TEST_P(StoreTest, WhatIsAppendedAfterSyncIsThereAfterTheNext) {
  for (const size_t first : {size_t{10}, size_t{9} << 20}) {
    std::string text = random_text(first);
    const auto file = files_->create(at("events"));
    file->append(bytes_of(text));
    file->sync();
    EXPECT_EQ(read(*files_, at("events")), text);
    for (unsigned i = 0; i < 2; ++i) {
      const std::string more = random_text(1000, i);
      file->append(bytes_of(more));
      text += more;
      file->sync();
      EXPECT_EQ(read(*files_, at("events")), text);
    }
    file->close();
  }
}

TEST_P(StoreTest, AFileThatIsNotClosedIsNotThere) {
  write(*files_, at("small"), "old");
  for (const size_t size : {size_t{3}, size_t{17} << 20}) {
    const auto file = files_->create(at("small"));
    file->append(bytes_of(random_text(size)));
  }
  EXPECT_EQ(read(*files_, at("small")), "old");
}

TEST_P(StoreTest, ListsFolders) {
  std::vector<std::string> names = {"a b", "c+d%20", "e&f", "ünï", "z?=#"};
  for (int i = 0; i < 20; ++i) names.push_back("file" + std::to_string(100 + i));  // several pages
  for (const std::string& name : names) write(*files_, at("run/" + name), name);
  write(*files_, at("run/sub/inner"), "");
  files_->make_folders(at("run/empty"));
  names.insert(names.end(), {"sub", "empty"});
  std::ranges::sort(names);
  EXPECT_EQ(files_->list(at("run")), names);
  EXPECT_EQ(files_->list(at("run/sub/")), std::vector<std::string>{"inner"});
  EXPECT_EQ(files_->list(GetParam().scheme + "://bucket"), std::vector<std::string>{"run"});
  EXPECT_TRUE(files_->list(at("run/empty")).empty());
  for (const char* const folder : {"run", "run/sub", "run/empty"}) {
    const auto info = files_->info(at(folder));
    ASSERT_TRUE(info && info->is_folder) << folder;
  }
  EXPECT_FALSE(files_->info(at("ru")));
  EXPECT_EQ(read(*files_, at("run/z?=#")), "z?=#");
}

TEST_P(StoreTest, RenamesAndRemoves) {
  write(*files_, at("a"), "text");
  files_->rename(at("a"), at("b/c d"));
  EXPECT_FALSE(files_->info(at("a")));
  EXPECT_EQ(read(*files_, at("b/c d")), "text");
  expect_error_containing([&] { files_->remove(at("b")); }, ErrorCode::kFailedPrecondition,
                          "not empty");
  expect_error_containing([&] { files_->rename(at("b"), at("d")); }, ErrorCode::kUnimplemented,
                          "is a folder");
  files_->remove(at("b/c d"));
  EXPECT_FALSE(files_->info(at("b")));
  files_->make_folders(at("b"));
  EXPECT_TRUE(files_->info(at("b")));
  files_->remove(at("b"));
  EXPECT_FALSE(files_->info(at("b")));
}

TEST_P(StoreTest, WhatIsMissingIsNamed) {
  for (const auto& [call, act] : std::map<std::string, std::function<void()>>{
           {"open", [&] { (void)files_->open(at("none")); }},
           {"remove", [&] { files_->remove(at("none")); }},
           {"rename", [&] { files_->rename(at("none"), at("b")); }}}) {
    expect_error(act, ErrorCode::kNotFound,
                 "[core] " + call + ": " + at("none") + ": no such object");
  }
  files_->make_folders(at("folder"));
  expect_error([&] { (void)files_->open(at("folder")); }, ErrorCode::kFailedPrecondition,
               "[core] open: " + at("folder") + " is a folder");
  const std::string elsewhere = GetParam().scheme + "://no-bucket/a";
  expect_error_containing(
      [&] { files_->info(elsewhere); }, ErrorCode::kNotFound,
      elsewhere +
          ": the server says 404 NoSuchBucket: The specified bucket does not exist; make the "
          "bucket first, or correct its name");
  expect_error_containing([&] { write(*files_, elsewhere, "text"); }, ErrorCode::kNotFound,
                          "NoSuchBucket");
}

TEST_P(StoreTest, AFileThatIsReplacedWhileItIsReadIsAnError) {
  write(*files_, at("a"), random_text(20 << 20));
  const auto file = files_->open(at("a"));
  std::vector<std::byte> some(100);
  EXPECT_EQ(file->read(0, some), some.size());
  write(*files_, at("a"), random_text(20 << 20, 2));
  expect_error([&] { file->read(19 << 20, some); }, ErrorCode::kUnavailable,
               "[core] read: " + at("a") + ": was replaced while it was read; open it again");
}

INSTANTIATE_TEST_SUITE_P(, StoreTest, testing::ValuesIn(kinds()),
                         [](const auto& info) { return info.param.name; });

TEST(StoreErrorsTest, WrongKeysAreNamed) {
  const StoreServer server(kS3Options);
  Variables variables = s3_variables(server.endpoint());
  variables["AWS_SECRET_ACCESS_KEY"] = "another";
  expect_error_containing([&] { store("s3", variables)->list("s3://bucket/a"); },
                          ErrorCode::kUnauthenticated,
                          "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION");
  variables["AWS_ACCESS_KEY_ID"] = "unknown";
  expect_error_containing([&] { store("s3", variables)->list("s3://bucket/a"); },
                          ErrorCode::kUnauthenticated, "InvalidAccessKeyId");
  const StoreServer tokens({"--token", "right"});
  expect_error_containing(
      [&] {
        store("gs", {{"STORAGE_EMULATOR_HOST", tokens.endpoint()},
                     {"GOOGLE_OAUTH_ACCESS_TOKEN", "wrong"}})
            ->list("gs://bucket/a");
      },
      ErrorCode::kUnauthenticated, "renew the token");
}

TEST(StoreErrorsTest, TheRegionThatTheServerNamesIsTaken) {
  std::vector<std::string> options = kS3Options;
  options.insert(options.end(), {"--region", "eu-north-1"});
  const StoreServer server(options);
  const auto files = store("s3", s3_variables(server.endpoint()));
  write(*files, "s3://bucket/a", "text");
  EXPECT_EQ(read(*files, "s3://bucket/a"), "text");
}

TEST(StoreErrorsTest, AServerThatIsNotThereIsGivenUpInTime) {
  Variables variables = s3_variables("http://127.0.0.1:1");
  variables["STRATA_STORE_TIMEOUT_S"] = "1";
  const auto files = store("s3", variables);
  const auto begin = std::chrono::steady_clock::now();
  expect_error_containing([&] { files->list("s3://bucket/a"); }, ErrorCode::kUnavailable,
                          "tried for 1 s");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

}  // namespace
}  // namespace strata
