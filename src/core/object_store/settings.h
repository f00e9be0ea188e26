#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <variant>

#include "core/object_store/http.h"
#include "core/object_store/signature.h"

namespace strata::object_store {

/// Whose name a request has: that of an access key, or of a token that expires and is asked for
/// each time.
struct Anonymous {};
using Token = std::function<std::string()>;
using Credentials = std::variant<AccessKey, Token, Anonymous>;

/// Where a store is and who asks it.
struct Settings {
  std::string scheme;    ///< "s3", "gs"
  std::string endpoint;  ///< "https://host:port"; empty: Amazon's of the region.
  std::string region = {};
  Credentials credentials = Anonymous{};
  HttpLimits limits = {};
  /// Of one call, with all its attempts.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

/// How the value of an environment variable is found; null: it has none.
using Environment = std::function<const char*(const char* name)>;

/// Of `scheme` "s3": AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, else the profile
/// AWS_PROFILE ("default") of AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials), or
/// AWS_NO_SIGN_REQUEST=yes; AWS_REGION or AWS_DEFAULT_REGION; AWS_ENDPOINT_URL_S3 or
/// AWS_ENDPOINT_URL; AWS_CA_BUNDLE. Of "gs": GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY (an HMAC
/// key), or STRATA_GS_TOKEN_FILE, which is read again for each request, or
/// GOOGLE_OAUTH_ACCESS_TOKEN, or GS_NO_SIGN_REQUEST=yes; STORAGE_EMULATOR_HOST. Of both:
/// STRATA_STORE_TIMEOUT_S and STRATA_STORE_STALL_S.
/// @throws Error kUnauthenticated: there are no credentials; says which variables to set.
///   kInvalidArgument: a variable is no number.
Settings settings_of(const std::string& scheme, const Environment& environment);

}  // namespace strata::object_store
