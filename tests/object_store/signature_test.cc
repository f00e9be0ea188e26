// Signatures, against those of Amazon's documentation: "Authenticating Requests (AWS Signature
// Version 4)", its examples.
#include <gtest/gtest.h>

#include <ctime>
#include <string>

#include "core/object_store/signature.h"

namespace strata::object_store {
namespace {

const AccessKey kKey = {.id = "AKIAIOSFODNN7EXAMPLE",
                        .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
constexpr std::time_t kTime = 1369353600;  // 2013-05-24T00:00:00Z

std::string header(const HttpRequest& request, const std::string& name) {
  for (const auto& [each, value] : request.headers) {
    if (each == name) return value;
  }
  return "";
}

std::string authorization(const std::string& query) {
  HttpRequest request{.method = "GET", .url = "https://examplebucket.s3.amazonaws.com/?" + query};
  sign(request, kKey, "us-east-1", kTime);
  EXPECT_EQ(header(request, "x-amz-date"), "20130524T000000Z");
  return header(request, "Authorization");
}

std::string expected(const std::string& signature) {
  return "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
         "SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature=" +
         signature;
}

TEST(SignatureTest, IsAmazons) {
  EXPECT_EQ(authorization("lifecycle"),
            expected("fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
  EXPECT_EQ(authorization("max-keys=2&prefix=J"),
            expected("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
  EXPECT_EQ(authorization("prefix=J&max-keys=2"), authorization("max-keys=2&prefix=J"));
}

TEST(SignatureTest, OfATemporaryKeyCoversItsToken) {
  AccessKey key = kKey;
  key.session_token = "token";
  HttpRequest request{.method = "GET", .url = "https://h/b/k"};
  sign(request, key, "us-east-1", kTime);
  EXPECT_EQ(header(request, "x-amz-security-token"), "token");
  EXPECT_NE(header(request, "Authorization").find(";x-amz-security-token,"), std::string::npos);
}

TEST(SignatureTest, EncodesAsAmazonWantsIt) {
  EXPECT_EQ(uri_encoded("a b/c+~é*"), "a%20b%2Fc%2B~%C3%A9%2A");
  EXPECT_EQ(uri_encoded("a b/c", /*keep_slashes=*/true), "a%20b/c");
}

}  // namespace
}  // namespace strata::object_store
