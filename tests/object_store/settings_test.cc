// What the environment says of object stores.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <variant>

#include "core/object_store/settings.h"
#include "core/object_store/store.h"
#include "core/object_store/xml.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace strata::object_store {
namespace {

Settings settings(const std::string& scheme, const std::map<std::string, std::string>& variables) {
  return settings_of(scheme, [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(StoreSettingsTest, OfAmazon) {
  const Settings made = settings("s3", {{"AWS_ACCESS_KEY_ID", "id"},
                                        {"AWS_SECRET_ACCESS_KEY", "secret"},
                                        {"AWS_SESSION_TOKEN", "token"},
                                        {"AWS_DEFAULT_REGION", "eu-west-1"}});
  EXPECT_EQ(made.endpoint, "");  // Amazon's of the region
  EXPECT_EQ(made.region, "eu-west-1");
  const auto& key = std::get<AccessKey>(made.credentials);
  EXPECT_EQ(key.id + key.secret + key.session_token, "idsecrettoken");
}

TEST(StoreSettingsTest, OfAnEndpointAndTimes) {
  const Settings made = settings("s3", {{"AWS_NO_SIGN_REQUEST", "yes"},
                                        {"AWS_ENDPOINT_URL", "https://general"},
                                        {"AWS_ENDPOINT_URL_S3", "https://store:9000/"},
                                        {"STRATA_STORE_TIMEOUT_S", "1.5"},
                                        {"STRATA_STORE_STALL_S", "2"}});
  EXPECT_EQ(made.endpoint, "https://store:9000");
  EXPECT_TRUE(std::holds_alternative<Anonymous>(made.credentials));
  EXPECT_EQ(made.timeout.count(), 1500);
  EXPECT_EQ(made.limits.stall.count(), 2000);
}

TEST(StoreSettingsTest, KeysOfAProfile) {
  const test::TempFolder folder;
  const std::string file = folder.path() + "/credentials";
  std::ofstream(file) << "[default]\naws_access_key_id = d\naws_secret_access_key = ds\n"
                         "[ other ]\naws_access_key_id=o\naws_secret_access_key = os\n";
  const auto id = [&](const std::string& profile) {
    return std::get<AccessKey>(
               settings("s3", {{"AWS_SHARED_CREDENTIALS_FILE", file}, {"AWS_PROFILE", profile}})
                   .credentials)
        .id;
  };
  EXPECT_EQ(id(""), "d");
  EXPECT_EQ(id("other"), "o");
  expect_error([&] { id("third"); }, ErrorCode::kUnauthenticated,
               "[core] s3://: got no credentials: neither AWS_ACCESS_KEY_ID and "
               "AWS_SECRET_ACCESS_KEY are set, nor does " +
                   file +
                   " have a profile [third] with a key; set them, or AWS_NO_SIGN_REQUEST=yes for a "
                   "public bucket");
}

TEST(StoreSettingsTest, OfGoogle) {
  EXPECT_EQ(settings("gs", {{"GS_NO_SIGN_REQUEST", "yes"}}).endpoint,
            "https://storage.googleapis.com");
  EXPECT_EQ(
      settings("gs", {{"GS_NO_SIGN_REQUEST", "yes"}, {"STORAGE_EMULATOR_HOST", "localhost:9"}})
          .endpoint,
      "http://localhost:9");
  const Settings hmac =
      settings("gs", {{"GS_ACCESS_KEY_ID", "id"}, {"GS_SECRET_ACCESS_KEY", "secret"}});
  EXPECT_EQ(std::get<AccessKey>(hmac.credentials).id, "id");
  expect_error_containing([] { settings("gs", {}); }, ErrorCode::kUnauthenticated,
                          "GOOGLE_OAUTH_ACCESS_TOKEN");
}

TEST(StoreSettingsTest, ATokenInAFileIsReadAgain) {
  const test::TempFolder folder;
  const std::string file = folder.path() + "/token";
  std::ofstream(file) << "first\n";
  const Settings made = settings("gs", {{"STRATA_GS_TOKEN_FILE", file}});
  const auto& token = std::get<Token>(made.credentials);
  EXPECT_EQ(token(), "first");
  std::ofstream(file) << "second\n";
  EXPECT_EQ(token(), "second");
}

TEST(StoreSettingsTest, TimesThatAreNoneAreRefused) {
  for (const char* const text : {"0", "-1", "soon", "1s"}) {
    expect_error(
        [&] {
          settings("s3", {{"AWS_NO_SIGN_REQUEST", "1"}, {"STRATA_STORE_STALL_S", text}});
        },
        str_cat("[core] STRATA_STORE_STALL_S: got '", text, "'; expected seconds, more than 0"));
  }
}

TEST(ObjectPathTest, HasABucketAndAKey) {
  const ObjectPath path = ObjectPath::parse("s3://bucket//a/b c/");
  EXPECT_EQ(path.bucket, "bucket");
  EXPECT_EQ(path.key, "a/b c");
  EXPECT_EQ(ObjectPath::parse("gs://bucket/").key, "");
  expect_error([] { ObjectPath::parse("s3://"); },
               "[core] got 's3://'; expected a bucket and a key, for example s3://my-bucket/run-1");
}

TEST(XmlTest, FindsElementsByTheirWholeName) {
  const std::string xml =
      "<L a=\"1\"><KeyCount>2</KeyCount><C><Key>a&amp;b "
      "&lt;</Key></C><C><Key/></C><C><Key>c</Key></C></L>";
  EXPECT_EQ(xml_text(xml, "Key"), "a&b <");
  EXPECT_EQ(xml_text(xml, "Missing"), "");
  ASSERT_EQ(xml_elements(xml, "C").size(), 3);
  EXPECT_EQ(xml_text(xml_elements(xml, "C")[1], "Key"), "");
  EXPECT_EQ(xml_text(xml_elements(xml, "C")[2], "Key"), "c");
  EXPECT_EQ(xml_element("<a>without an end", "a"), "");
}

}  // namespace
}  // namespace strata::object_store
