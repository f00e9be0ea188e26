#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/core/export.h"

namespace strata::object_store {

struct HttpRequest {
  std::string method;  ///< "GET"
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string_view body = {};  ///< Lives until the request has ended.
  std::span<std::byte> into =
      {};  ///< Takes the body of a 2xx; if it is empty, `HttpResponse::body` does.
};

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string> headers = {};  ///< Names in small letters.
  std::string body = {};
  size_t received = 0;  ///< Bytes of the body.
};

struct HttpLimits {
  std::chrono::milliseconds connect = std::chrono::seconds(10);
  /// Without a byte in either direction.
  std::chrono::milliseconds stall = std::chrono::seconds(20);
  std::chrono::milliseconds total{0};  ///< Of the whole request; 0: as long as bytes come.
  std::string certificates = {};       ///< A file with those that are trusted; empty: the system's.
};

/// Sends a request by libcurl over HTTP or HTTPS, and waits for the response, whatever its status.
/// Connections are kept for later requests. Threads: any, at once.
/// @throws Error kUnavailable: no whole response has come, or it is longer than `into`; says why.
///   Worth another try. kUnimplemented: libcurl is missing.
STRATA_API HttpResponse send_http(const HttpRequest& request, const HttpLimits& limits);

}  // namespace strata::object_store
