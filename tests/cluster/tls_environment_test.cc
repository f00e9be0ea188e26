#include "strata/cluster/tls_environment.h"

#include <gtest/gtest.h>

#include <fstream>

#include "strata/core/file_system.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace strata::cluster {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

class TlsEnvironmentTest : public testing::Test {
 protected:
  std::string make(const std::string& name) const {
    std::string path = join_path(folder_.path(), name);
    std::ofstream(path) << name;
    return path;
  }
  static std::optional<wire::TlsOptions> read(Variables variables) {
    return tls_from_environment({"worker", 1}, Environment(std::move(variables)));
  }

  const test::TempFolder folder_;
};

TEST_F(TlsEnvironmentTest, WithoutVariablesThereIsNoTls) {
  EXPECT_FALSE(read({{"STRATA_TLS", "1"}}).has_value());
}

TEST_F(TlsEnvironmentTest, AFolderHasTheTasksFiles) {
  const std::string authority = make("authority.pem");
  const std::string certificate = make("worker-1.pem");
  const std::string key = make("worker-1.key");
  const auto tls = read({{"STRATA_TLS_DIR", folder_.path()}});
  ASSERT_TRUE(tls.has_value());
  EXPECT_EQ(tls->authority_file, authority);
  EXPECT_EQ(tls->certificate_file, certificate);
  EXPECT_EQ(tls->key_file, key);
}

TEST_F(TlsEnvironmentTest, FilesMayHaveAnyName) {
  const std::string authority = make("ca.crt");
  const std::string certificate = make("tls.crt");
  const std::string key = make("tls.key");
  const auto tls = read({{"STRATA_TLS_AUTHORITY", authority},
                         {"STRATA_TLS_CERTIFICATE", certificate},
                         {"STRATA_TLS_KEY", key}});
  ASSERT_TRUE(tls.has_value());
  EXPECT_EQ(tls->authority_file, authority);
  EXPECT_EQ(tls->certificate_file, certificate);
  EXPECT_EQ(tls->key_file, key);
}

TEST_F(TlsEnvironmentTest, WhatIsMissingIsNamed) {
  make("authority.pem");
  make("worker-1.pem");
  make("worker-0.key");
  expect_error(
      [&] {
        read({{"STRATA_TLS_DIR", folder_.path()}});
      },
      ErrorCode::kNotFound,
      str_cat("[cluster] STRATA_TLS_DIR: got ", folder_.path(),
              "/worker-1.key, which does not exist; `strata certs ", folder_.path(),
              " --tasks ...` makes the job's files"));
  expect_error(
      [&] {
        read({{"STRATA_TLS_AUTHORITY", "/nowhere"},
              {"STRATA_TLS_CERTIFICATE", "/nowhere"},
              {"STRATA_TLS_KEY", "/nowhere"}});
      },
      ErrorCode::kNotFound,
      "[cluster] STRATA_TLS_AUTHORITY: got /nowhere, which does not exist; set it to the file");
  expect_error(
      [&] {
        read({{"STRATA_TLS_KEY", "/nowhere"}});
      },
      "[cluster] TLS: got STRATA_TLS_KEY without STRATA_TLS_AUTHORITY, "
      "STRATA_TLS_CERTIFICATE; set all three");
  expect_error(
      [&] {
        read({{"STRATA_TLS_KEY", "/nowhere"}, {"STRATA_TLS_DIR", "/nowhere"}});
      },
      "[cluster] TLS: got STRATA_TLS_DIR and STRATA_TLS_KEY; set the folder, or the three "
      "files");
}

}  // namespace
}  // namespace strata::cluster
