#pragma once

#include <curl/curl.h>

namespace strata::object_store {

/// The functions of libcurl that are called here. Its library is opened when the first path of an
/// object store is used: programs that have none neither need nor load it.
struct CurlLibrary {
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_cleanup) easy_cleanup;
  decltype(&::curl_easy_reset) easy_reset;
  decltype(&::curl_easy_setopt) easy_setopt;
  decltype(&::curl_easy_perform) easy_perform;
  decltype(&::curl_easy_getinfo) easy_getinfo;
  decltype(&::curl_easy_strerror) easy_strerror;
  decltype(&::curl_slist_append) slist_append;
  decltype(&::curl_slist_free_all) slist_free_all;

  /// @throws Error  kUnimplemented: it is not installed.
  static const CurlLibrary& get();
};

}  // namespace strata::object_store
