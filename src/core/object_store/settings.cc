#include "core/object_store/settings.h"

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <initializer_list>

#include "strata/core/error.h"
#include "strata/core/file_system.h"

namespace strata::object_store {
namespace {

std::string first_of(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const char* const value = environment(name);
    if (value != nullptr && *value != 0) return value;
  }
  return "";
}

bool is_on(const std::string& word) {
  return word == "yes" || word == "YES" || word == "true" || word == "1";
}

std::chrono::milliseconds seconds_in(const Environment& environment, const char* name,
                                     std::chrono::milliseconds otherwise) {
  const std::string text = first_of(environment, {name});
  if (text.empty()) return otherwise;
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  STRATA_CHECK(
      error == std::errc() && end == text.data() + text.size() && seconds > 0 && seconds < 1e6,
      kInvalidArgument, "[core] ", name, ": got '", text, "'; expected seconds, more than 0");
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

std::string without_spaces(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
  return text;
}

/// Of a section of an INI file, as AWS's tools write it.
std::optional<AccessKey> key_in_file(const std::string& path, const std::string& profile) {
  std::ifstream file(path);
  AccessKey key;
  bool is_in_profile = false;
  for (std::string line; std::getline(file, line);) {
    line = without_spaces(line);
    if (line.starts_with('[')) is_in_profile = line == str_cat('[', profile, ']');
    const size_t equals = line.find('=');
    if (!is_in_profile || equals == line.npos) continue;
    const std::string name = line.substr(0, equals);
    const std::string value = line.substr(equals + 1);
    if (name == "aws_access_key_id") key.id = value;
    if (name == "aws_secret_access_key") key.secret = value;
    if (name == "aws_session_token") key.session_token = value;
  }
  if (key.id.empty() || key.secret.empty()) return std::nullopt;
  return key;
}

Credentials credentials_of_s3(const Environment& environment) {
  AccessKey key{.id = first_of(environment, {"AWS_ACCESS_KEY_ID"}),
                .secret = first_of(environment, {"AWS_SECRET_ACCESS_KEY"}),
                .session_token = first_of(environment, {"AWS_SESSION_TOKEN"})};
  if (!key.id.empty() && !key.secret.empty()) return key;
  if (is_on(first_of(environment, {"AWS_NO_SIGN_REQUEST"}))) return Anonymous{};
  std::string file = first_of(environment, {"AWS_SHARED_CREDENTIALS_FILE"});
  if (file.empty()) file = join_path(first_of(environment, {"HOME"}), ".aws/credentials");
  std::string profile = first_of(environment, {"AWS_PROFILE"});
  if (profile.empty()) profile = "default";
  if (const auto found = key_in_file(file, profile)) return *found;
  throw Error(ErrorCode::kUnauthenticated,
              str_cat("[core] s3://: got no credentials: neither AWS_ACCESS_KEY_ID and "
                      "AWS_SECRET_ACCESS_KEY are set, "
                      "nor does ",
                      file, " have a profile [", profile,
                      "] with a key; set them, or AWS_NO_SIGN_REQUEST=yes for a public bucket"));
}

Credentials credentials_of_gs(const Environment& environment) {
  AccessKey key{.id = first_of(environment, {"GS_ACCESS_KEY_ID"}),
                .secret = first_of(environment, {"GS_SECRET_ACCESS_KEY"})};
  if (!key.id.empty() && !key.secret.empty()) return key;
  if (const std::string file = first_of(environment, {"STRATA_GS_TOKEN_FILE"}); !file.empty()) {
    return Token([file] { return without_spaces(read_file(file)); });
  }
  if (std::string token = first_of(environment, {"GOOGLE_OAUTH_ACCESS_TOKEN"}); !token.empty()) {
    return Token([token] { return token; });
  }
  if (is_on(first_of(environment, {"GS_NO_SIGN_REQUEST"}))) return Anonymous{};
  throw Error(
      ErrorCode::kUnauthenticated,
      "[core] gs://: got no credentials; set GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY (an HMAC "
      "key), "
      "STRATA_GS_TOKEN_FILE (a file with an access token that something renews), "
      "GOOGLE_OAUTH_ACCESS_TOKEN (valid for "
      "an hour: gcloud auth print-access-token), or GS_NO_SIGN_REQUEST=yes for a public bucket");
}

std::string with_protocol(std::string endpoint) {
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (endpoint.empty() || endpoint.find("://") != endpoint.npos) return endpoint;
  return "http://" + endpoint;  // STORAGE_EMULATOR_HOST=localhost:9000
}

}  // namespace

Settings settings_of(const std::string& scheme, const Environment& environment) {
  Settings settings;
  settings.scheme = scheme;
  if (scheme == "gs") {
    settings.endpoint = with_protocol(first_of(environment, {"STORAGE_EMULATOR_HOST"}));
    if (settings.endpoint.empty()) settings.endpoint = "https://storage.googleapis.com";
    settings.region = "auto";
    settings.credentials = credentials_of_gs(environment);
  } else {
    settings.region = first_of(environment, {"AWS_REGION", "AWS_DEFAULT_REGION"});
    if (settings.region.empty()) settings.region = "us-east-1";
    settings.endpoint =
        with_protocol(first_of(environment, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}));
    settings.limits.certificates = first_of(environment, {"AWS_CA_BUNDLE"});
    settings.credentials = credentials_of_s3(environment);
  }
  settings.limits.stall = seconds_in(environment, "STRATA_STORE_STALL_S", settings.limits.stall);
  settings.timeout = seconds_in(environment, "STRATA_STORE_TIMEOUT_S", settings.timeout);
  return settings;
}

}  // namespace strata::object_store
