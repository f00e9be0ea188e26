#include "tools/certs/job_certificates.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "core/join.h"
#include "strata/core/file_system.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "tools/launch/task_list.h"
#include "wire/tls/certificates.h"

namespace strata::tools {
namespace {

using namespace std::chrono_literals;

class JobCertificatesTest : public testing::Test {
 protected:
  std::vector<cluster::TaskId> make(const std::string& tasks,
                                    const JobCertificateOptions& options = {}) const {
    return make_job_certificates(folder(), parse_task_list(tasks, "tasks"), options);
  }
  std::string folder() const { return temp_.path() + "/job"; }
  std::string path(const std::string& name) const { return join_path(folder(), name); }
  std::string read(const std::string& name) const { return read_file(path(name)); }

  // "name: trouble" of each that has one.
  std::string troubles(std::chrono::system_clock::duration later = {}) const {
    std::string text;
    for (const auto& each :
         check_job_certificates(folder(), std::chrono::system_clock::now() + later))
      if (!each.trouble.empty()) text += str_cat(each.name, ": ", each.trouble, "\n");
    return text;
  }

  const test::TempFolder temp_;
};

TEST_F(JobCertificatesTest, MakesAnAuthorityAndWhatItSigns) {
  EXPECT_EQ(make("worker=2,ps=1").size(), 3U);
  EXPECT_EQ(join(local_file_system().list(folder())),
            "authority.key, authority.pem, ps-0.key, ps-0.pem, worker-0.key, worker-0.pem, "
            "worker-1.key, worker-1.pem");
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    struct stat info = {};
    ASSERT_EQ(::stat(entry.path().c_str(), &info), 0);
    const bool secret = entry.path().extension() == ".key";
    EXPECT_TRUE(!secret || (info.st_mode & 0777) == 0600) << entry.path();
  }
  const auto checked = check_job_certificates(folder());
  ASSERT_EQ(checked.size(), 4U);
  EXPECT_EQ(checked[0].name, "authority");
  EXPECT_EQ(checked[0].owner, "strata authority of strata");
  EXPECT_EQ(checked[1].owner, "ps-0.strata");
  EXPECT_EQ(troubles(), "");
  const auto days = checked[1].valid_until - std::chrono::system_clock::now();
  EXPECT_GT(days, 364 * 24h);
  EXPECT_LT(days, 366 * 24h);
}

TEST_F(JobCertificatesTest, WhatIsThereIsKept) {
  make("worker=1");
  const std::string authority = read("authority.pem"), worker = read("worker-0.pem");
  const auto made = make("worker=2");
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].short_name(), "worker:1");
  EXPECT_EQ(read("authority.pem"), authority);
  EXPECT_EQ(read("worker-0.pem"), worker);
  EXPECT_EQ(troubles(), "");

  EXPECT_EQ(make("worker=2", {.replace = true}).size(), 2U);
  EXPECT_NE(read("authority.pem"), authority);
  EXPECT_NE(read("worker-0.pem"), worker);
  EXPECT_EQ(troubles(), "");
}

TEST_F(JobCertificatesTest, HalfAPairIsAnError) {
  make("worker=2");
  std::filesystem::remove(path("worker-1.key"));
  expect_error([&] { make("worker=2"); }, ErrorCode::kFailedPrecondition,
               str_cat("[strata certs] got ", path("worker-1.pem"),
                       " without worker-1.key; --force makes all anew"));
  std::filesystem::remove(path("authority.key"));
  expect_error([&] { make("worker=3"); }, ErrorCode::kFailedPrecondition,
               str_cat("[strata certs] got ", path("authority.pem"),
                       " without authority.key; --force makes all anew"));
  std::filesystem::remove(path("authority.pem"));
  expect_error([&] { make("worker=1"); }, ErrorCode::kFailedPrecondition,
               str_cat("[strata certs] got certificates in ", folder(),
                       " without their authority.pem and authority.key; --force makes all anew"));
}

TEST_F(JobCertificatesTest, AnAuthorityThatHasExpiredSignsNoMore) {
  const auto now = std::chrono::system_clock::now();
  wire::write_certificate(wire::make_authority("old", {.valid_from = now - 48h, .valid_for = 24h}),
                          folder(), "authority");
  expect_error([&] { make("worker=1"); }, ErrorCode::kFailedPrecondition,
               str_cat("[strata certs] got an authority in ", folder(),
                       " that can sign no more: certificate has expired; --force makes all anew"));
}

TEST_F(JobCertificatesTest, EachTroubleIsTold) {
  make("worker=4");
  const test::TempFolder other;
  make_job_certificates(other.path(), {{"worker", 1}});
  const auto copy = [&](const std::string& from, const std::string& to) {
    std::filesystem::copy_file(from, path(to), std::filesystem::copy_options::overwrite_existing);
  };
  copy(other.path() + "/worker-1.pem", "worker-1.pem");
  copy(path("worker-0.pem"), "worker-2.pem");
  copy(path("worker-0.key"), "worker-2.key");
  copy(path("worker-0.key"), "worker-3.key");
  std::filesystem::permissions(path("worker-0.key"), std::filesystem::perms(0640));
  copy(path("authority.pem"), "ps-0.pem");
  std::filesystem::remove(path("authority.key"));  // as it should be on a task's host
  EXPECT_EQ(troubles(), str_cat("ps-0: it is an authority's\n"
                                "worker-0: others can read its key; chmod 600 ",
                                path("worker-0.key"),
                                "\n"
                                "worker-1: unable to get local issuer certificate\n"
                                "worker-2: it is of worker-0.strata, not of worker-2.strata\n"
                                "worker-3: the key does not belong to it\n"));
  std::filesystem::remove(path("worker-3.key"));
  local_file_system().create(path("chief-0.pem"))->close();
  EXPECT_NE(troubles().find("chief-0: [wire] inspect_certificate: got something that is no "
                            "certificate in PEM form; expected -----BEGIN CERTIFICATE-----\n"),
            std::string::npos)
      << troubles();
  EXPECT_NE(troubles().find("worker-3: worker-3.key is missing\n"), std::string::npos);
}

TEST_F(JobCertificatesTest, WhatHasExpiredIsTold) {
  make("worker=1", {.valid_for = 48h});
  EXPECT_EQ(troubles(24h), "");
  EXPECT_EQ(troubles(72h),
            "authority: certificate has expired\nworker-0: certificate has expired\n");
  std::filesystem::remove(path("authority.key"));
  EXPECT_EQ(troubles(72h),
            "authority: certificate has expired, or is not yet valid\n"
            "worker-0: certificate has expired\n");
}

}  // namespace
}  // namespace strata::tools
