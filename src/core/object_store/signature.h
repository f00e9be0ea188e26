#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "core/object_store/http.h"

namespace strata::object_store {

struct AccessKey {
  std::string id;
  std::string secret;
  std::string session_token = {};  ///< Of temporary ones.
};

/// Percent-encodes all but letters, digits and -._~; of a path '/' stays, too.
std::string uri_encoded(std::string_view text, bool keep_slashes = false);

/// Adds the headers that authenticate a request: x-amz-date, x-amz-content-sha256, Authorization.
/// @param request Its URL has an encoded path, and a query in any order; its headers named
///   x-amz-... are signed.
/// @param now Servers allow a difference of 15 minutes. Source: "Signature Version 4 signing
/// process" of AWS; Google Cloud Storage takes it for HMAC keys.
void sign(HttpRequest& request, const AccessKey& key, std::string_view region, std::time_t now);

}  // namespace strata::object_store
